"""Verify notebooks from the command line: one after the other, with a report for build servers."""

from __future__ import annotations

import os

from tk_ai_extension.cli.project import Refused
from tk_ai_extension.cli.servers import ToolFailed
from tk_ai_extension.cli.session import FAILED, OK, Session, as_commands, write, write_err

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any


def verify(session: Session, args: argparse.Namespace, options: Mapping[str, Any]) -> int:
    """Verify the notebooks that the arguments name; return the exit status."""
    paths = list(_notebooks(session, args.paths))
    reports: list[dict[str, Any]] = []
    good = 0
    for path in paths:
        report = _verified(session, args, path, options, is_alone=len(paths) == 1)
        reports.append(report)
        good += report["status"] in ("same", "runs")
        if report["status"] == "interrupted":
            break
    is_verified = good == len(paths)
    if session.as_json:
        session.print_json({"verified": is_verified, "notebooks": reports})
    elif len(paths) > 1:
        write(f"{good} of {len(paths)} notebooks are verified.")
    return OK if is_verified else FAILED


def _verified(
    session: Session,
    args: argparse.Namespace,
    path: str,
    options: Mapping[str, Any],
    *,
    is_alone: bool,
) -> dict[str, Any]:
    """Verify a notebook and print the result; return the report."""
    server = session.server(path)
    notebook = session.there(server, path)
    try:
        answer = session.run(server, "nb:verify_notebook", notebook=notebook, **options)
    except ToolFailed as error:
        if "has no code to run" in str(error):
            return {"notebook": notebook, "status": "same"}
        if is_alone:
            raise
        write_err(f"{notebook}: {error}")
        return {"notebook": notebook, "status": "failed", "error": str(error)}
    report = answer["result"]["verification"]
    if not session.as_json:
        write(as_commands(answer["text"]))
    if args.update and report["status"] != "interrupted":
        name = answer["result"]["execution_id"]
        stored = session.call(server, "nb:store_outputs", execution_id=name)
        write_err(stored["text"])
    return {"notebook": notebook, **report}


def _notebooks(session: Session, given: Sequence[str]) -> Iterator[str]:
    """Yield the absolute paths of the notebooks that the arguments name, each once.

    Raises:
        Refused: there is none.
    """
    if not given and session.current is None:
        raise Refused("no notebook is named, and none is open: `nb verify .` verifies all here.")
    found: dict[str, None] = {}
    for each in given or [str(session.current)]:
        path = os.path.abspath(os.path.expanduser(each))
        if not os.path.isdir(path):
            found[path] = None
            continue
        for folder, names, files in os.walk(path):
            names[:] = sorted(name for name in names if not name.startswith("."))
            found |= {os.path.join(folder, n): None for n in sorted(files) if n.endswith(".ipynb")}
    if not found:
        raise Refused("there is no notebook in these folders.")
    yield from found

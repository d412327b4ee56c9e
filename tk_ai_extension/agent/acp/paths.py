"""The paths that an agent's own action concerns, as its report names them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tk_ai_extension.agent.acp.calls import ReportedCall, mapping

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_PATHS = re.compile(
    r"(?:path|file|filename|filepath|dir|directory|folder|cwd|root|url|uri|location)s?|directories"
)
"""Matches the last word in the name of an argument that has a path, or a list of them."""

_ABSOLUTE = re.compile(r"[/~]|[A-Za-z][\w+.-]*:/")
_ELSEWHERE = re.compile(rf"[{{,(|](?:{_ABSOLUTE.pattern})|(?:^|[/{{,])\.\.(?:$|[/}},])")
"""Matches a text that may lead out of the folder that it begins with, as a pattern of files may."""


@dataclass(frozen=True, slots=True)
class AgentFolder:
    """The working directory of an agent.

    Attributes:
        path: The directory.
        own: Whether it is the agent's own, which holds nothing of the person's.
    """

    path: Path
    own: bool

    def resolve(self, path: str) -> str:
        """Return a path as the agent resolves it: absolute."""
        return os.path.join(self.path, path)  # noqa: PTH118 - `..` and a leading `~` are kept

    def holds(self, path: str) -> bool:
        """Return whether it is the agent's own and an absolute path leads into it, also by links."""
        if not self.own or not path.startswith("/"):
            return False
        try:
            return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self.path))
        except ValueError:
            # It cannot be the name of a file.
            return False


def read_paths(call: ReportedCall, folder: AgentFolder) -> tuple[str, ...] | None:
    """Return the absolute paths that a call reads outside the agent's own folder.

    Args:
        call: A call that only reads, by its kind.
        folder: The agent's working directory. A search that names no path searches there.

    Returns:
        The paths; None if they are not known.
    """
    if call.kind == "think":
        return ()
    texts = list(_texts(call.raw))
    named = [*call.locations, *(value for key, value in texts if _is_path(key))]
    if call.kind == "search" and not named:
        named.append(str(folder.path))
    if not named or not all(named):
        return None
    # A pattern of files may be absolute.
    named += [value for key, value in texts if not _is_path(key) and _ABSOLUTE.match(value)]
    leads_elsewhere = any(map(_ELSEWHERE.search, [*named, *(value for _, value in texts)]))
    if leads_elsewhere or any(path.startswith("~") or ":" in path.split("/")[0] for path in named):
        # The agent expands it by itself, or it is an address.
        return None
    resolved = [folder.resolve(path) for path in named]
    return tuple(path for path in resolved if not folder.holds(path))


def written_paths(call: ReportedCall) -> list[str]:
    """Return the paths that a call names, for a call that writes by its kind."""
    return [
        *(path for path, _, _ in call.diffs),
        *call.locations,
        *(value for key, value in _texts(call.raw) if _is_path(key)),
    ]


def _is_path(key: str) -> bool:
    words = _WORD.findall(key)
    return bool(words) and _PATHS.fullmatch(words[-1].lower()) is not None


def _texts(raw: Any, key: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield each text in an input, and the name of its argument."""
    if isinstance(raw, str):
        yield key, raw
    elif depth > 20:
        # No tool nests its arguments so deep.
        yield "path", ""
    elif isinstance(raw, Mapping):
        for name, value in mapping(raw).items():
            yield from _texts(value, name, depth + 1)
    elif isinstance(raw, list):
        for value in cast("list[Any]", raw):
            yield from _texts(value, key, depth + 1)

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

_CONTENT = re.compile(
    r"(?:content|text|string|str|code|line|diff|patch|title|message|description|instruction"
    r"|explanation|reason|thought)s?"
)
"""Matches the last word in the name of an argument of an editor that has no path, but a text."""

_IN_PATCH = re.compile(
    r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to):[ \t]*(.*?)[ \t\r]*$", re.MULTILINE
)
"""Matches a path in a patch of the form that ``apply_patch`` takes."""

_NAME = re.compile(r"[\w-]+")
"""Matches the name of an argument; other keys of an object, such as ``src/a.py``, may be paths."""

UNKNOWN = ""
"""A place that is not known."""


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


def concerned_paths(call: ReportedCall, folder: AgentFolder, *, writes: bool) -> tuple[str, ...]:
    """Return the paths that a call concerns outside the agent's own folder.

    Args:
        call: A call that only reads or writes, by its kind.
        folder: The agent's working directory. A search that names no path searches there.
        writes: Whether it writes. Each text that is not the content of a file then counts as a path.

    Returns:
        Absolute paths, and `UNKNOWN` for each place that is not known.
    """
    if call.kind == "think" and not writes:
        return ()
    named = named_paths(call)
    if call.kind == "search" and not named:
        named.append(str(folder.path))
    others = [(key, value) for key, value in _texts(call.raw) if not _is_path(key)]
    if not named:
        named.append(UNKNOWN)
    elif writes:
        named += [value for key, value in others if call.kind != "edit" or not _is_content(key)]
    if not writes:
        # A pattern of files may be absolute.
        named += [text for _, text in others if _ABSOLUTE.match(text) or _ELSEWHERE.search(text)]
    resolved = [_resolved(path, folder) for path in named]
    return tuple(path for path in resolved if not folder.holds(path))


def named_paths(call: ReportedCall) -> list[str]:
    """Return the paths that a call names as such, as it names them."""
    texts = list(_texts(call.raw))
    return [
        *(path for path, _, _ in call.diffs),
        *call.locations,
        *(value for key, value in texts if _is_path(key)),
        *(path for _, value in texts for path in _IN_PATCH.findall(value)),
    ]


def _resolved(path: str, folder: AgentFolder) -> str:
    """Return a path as an absolute one; `UNKNOWN` if it is none, or if the agent expands it by itself."""
    is_expanded = path.startswith("~") or ":" in path.partition("/")[0] or _ELSEWHERE.search(path)
    return folder.resolve(path) if path and path.isprintable() and not is_expanded else UNKNOWN


def _is_path(key: str) -> bool:
    return _PATHS.fullmatch(_last_word(key)) is not None


def _is_content(key: str) -> bool:
    return _CONTENT.fullmatch(_last_word(key)) is not None


def _last_word(key: str) -> str:
    return (_WORD.findall(key) or [""])[-1].lower()


def _texts(raw: Any, key: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield each text in an input, and the name of its argument."""
    if isinstance(raw, str):
        yield key, raw
    elif depth > 20:
        # No tool nests its arguments so deep.
        yield "path", ""
    elif isinstance(raw, Mapping):
        for name, value in mapping(raw).items():
            if not _NAME.fullmatch(name):
                yield "path", name
            yield from _texts(value, name, depth + 1)
    elif isinstance(raw, list):
        for value in cast("list[Any]", raw):
            yield from _texts(value, key, depth + 1)

"""Prompts that people keep in files: commands and skills, as Claude Code has them.

A prompt is text. It becomes the person's message when they send ``/name arguments``, and nothing in it
is carried out: no field of the front matter grants or runs anything, and lines that begin with ``!`` or
name a file by ``@`` stay text.
"""

from __future__ import annotations

import asyncio
import builtins
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import Literal

from typing_extensions import TypedDict

from tk_ai_extension.agent.requests import MAX_MESSAGE
from tk_ai_extension.model.errors import LimitReached
from tk_ai_extension.notebooks.atomic_file import open_regular

MAX_FILE = 64_000
"""Maximum size of a prompt's file, in bytes; a longer one is not offered."""
MAX_PROMPTS = 200
"""Maximum number of prompts of one folder."""
MAX_VISITED = 2_000
"""Maximum number of files and folders that are visited to find the prompts of one folder."""
MAX_DEPTH = 4
"""Maximum depth of subfolders in which commands are found."""
MAX_NOTE = 200
"""Maximum length of a description or a hint, in characters."""

Origin = Literal["user", "project"]
"""Where a prompt is from: the folder of the user's own, or the project's."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_CALL = re.compile(r"/([A-Za-z0-9][A-Za-z0-9_.:-]{0,300})(?:\s+(.*))?", re.DOTALL)
_FIELD = re.compile(r"([A-Za-z][A-Za-z0-9_-]*):[ \t]*(.*)")
_PLACEHOLDER = re.compile(r"\$(?:ARGUMENTS|([1-9]))(?![A-Za-z0-9_])")
# Control characters, and those that reverse the direction of a text or have no width.
_HIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]+")


class PromptInfo(TypedDict):
    """A prompt, for a list of them.

    Attributes:
        name: What a person types after ``/``.
        description: What it is for; may be empty.
        hint: Its arguments; may be empty.
        origin: Whose it is.
        kind: A command or a skill.
        path: The file, relative to the root or to the home folder.
    """

    name: str
    description: str
    hint: str
    origin: Origin
    kind: Literal["command", "skill"]
    path: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt in a file.

    Attributes:
        info: Its description.
        text: The text, without the front matter.
    """

    info: PromptInfo
    text: str

    def with_arguments(self, arguments: str) -> str:
        r"""Return the text of a message.

        ``$ARGUMENTS`` stands for all arguments, ``$1`` to ``$9`` for one. Arguments that the text has
        no place for follow it.

        Raises:
            LimitReached: The message would be too long.

        >>> info = PromptInfo(name="a", description="", hint="", origin="user", kind="command", path="")
        >>> Prompt(info, "Compare $1 with $2.").with_arguments("'a b' $1")
        'Compare a b with $1.'
        >>> Prompt(info, "Look.").with_arguments("here")
        'Look.\n\nARGUMENTS: here'
        """
        words = _words(arguments)
        parts: list[str] = []
        length = end = 0
        has_place = False
        for found in _PLACEHOLDER.finditer(self.text):
            has_place = True
            number = found[1]
            given = arguments if number is None else "".join(words[int(number) - 1 : int(number)])
            parts += [self.text[end : found.start()], given]
            end = found.end()
            length += len(given)
            if length > MAX_MESSAGE:
                break
        parts.append(self.text[end:])
        if arguments and not has_place:
            parts.append(f"\n\nARGUMENTS: {arguments}")
        if length > MAX_MESSAGE or sum(map(len, parts)) > MAX_MESSAGE:
            raise LimitReached(
                f"With the prompt /{self.info['name']} the message has more than "
                f"{MAX_MESSAGE} characters."
            )
        return "".join(parts).strip()


@dataclass(frozen=True)
class PromptFolders:
    """The folders of prompts: ``.claude`` in the root and in the user's home.

    They are read when a list or a prompt is needed.

    Attributes:
        root: The root folder; None if there are no files.
        home: The home folder of the user who runs the server.
        owners: The names of that user; others get the project's prompts only.
    """

    root: Path | None = None
    home: Path = field(default_factory=Path.home)
    owners: frozenset[str] = frozenset()

    async def list(self, user: str) -> builtins.list[PromptInfo]:
        """Return a user's prompts by name; of two with one name only the user's own."""
        return [each.info for each in await asyncio.to_thread(self._read, user)]

    async def expand(self, user: str, text: str) -> str:
        """Return the text of a message: a prompt with its arguments, or the same text if it calls none.

        Raises:
            LimitReached: The message would be too long.
        """
        found = _CALL.fullmatch(text.strip())
        if found is None:
            return text
        prompts = await asyncio.to_thread(self._read, user)
        prompt = next((each for each in prompts if each.info["name"] == found[1]), None)
        if prompt is None:
            return text
        return prompt.with_arguments((found[2] or "").strip()) or text

    def _read(self, user: str) -> builtins.list[Prompt]:
        found: dict[str, Prompt] = {}
        if user in self.owners:
            _collect(self.home, None, "user", found)
        if self.root is not None:
            _collect(self.root, self.root, "project", found)
        return [found[name] for name in sorted(found)]


def _collect(base: Path, within: Path | None, origin: Origin, found: dict[str, Prompt]) -> None:
    """Add the prompts below a folder, except those whose name is taken.

    Args:
        base: The folder with the folder ``.claude``.
        within: What no link may lead out of; None for folders of the user's own, which may be links.
        origin: Whose they are.
        found: The prompts by name.
    """
    commands, skills = base / ".claude" / "commands", base / ".claude" / "skills"
    count = 0
    for folder, files in ((commands, _commands(commands)), (skills, _skills(skills))):
        if within is not None and not _is_inside(folder, within):
            continue
        for path, name, kind in files:
            if count >= MAX_PROMPTS:
                return
            prompt = None if name in found or not _is_inside(path, folder) else _prompt(path)
            if prompt is None:
                continue
            fields, body = prompt
            info: PromptInfo = {
                "name": name,
                "description": _note(fields.get("description", "")),
                "hint": _note(fields.get("argument-hint", "")),
                "origin": origin,
                "kind": kind,
                "path": path.relative_to(base).as_posix(),
            }
            found[name] = Prompt(info, body)
            count += 1


def _prompt(path: Path) -> tuple[Mapping[str, str], str] | None:
    """Return the fields and the text of a file; None if it is no prompt for people."""
    text = _text(path)
    fields, body = front_matter(text or "")
    is_hidden = fields.get("user-invocable", "").lower() == "false"
    return None if not body.strip() or is_hidden else (fields, body)


def _commands(folder: Path) -> Iterator[tuple[Path, str, Literal["command"]]]:
    """Yield the files of commands, their names (``folder:name`` in a subfolder) and the kind."""
    visited = 0
    waiting: list[tuple[Path, str, int]] = [(folder, "", 0)]
    while waiting:
        place, prefix, depth = waiting.pop()
        for entry in _entries(place):
            visited += 1
            if visited > MAX_VISITED:
                return
            stem = entry.name.removesuffix(".md")
            if not _NAME.fullmatch(stem):
                continue
            if entry.is_dir(follow_symlinks=False):
                if depth < MAX_DEPTH:
                    waiting.append((Path(entry.path), f"{prefix}{entry.name}:", depth + 1))
            elif stem != entry.name:
                yield Path(entry.path), prefix + stem, "command"


def _skills(folder: Path) -> Iterator[tuple[Path, str, Literal["skill"]]]:
    for entry in _entries(folder)[:MAX_VISITED]:
        if _NAME.fullmatch(entry.name) and entry.is_dir():
            yield Path(entry.path, "SKILL.md"), entry.name, "skill"


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _is_inside(path: Path, folder: Path) -> bool:
    """Whether a path, with its links followed, is below a folder."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _text(path: Path) -> str | None:
    """Return the text of a regular file; None if it is none, too large or not readable."""
    try:
        # The path has no links left, and none may have come since.
        with BufferedReader(open_regular(Path(os.path.realpath(path)))) as file:
            data = file.read(MAX_FILE + 1)
        return None if len(data) > MAX_FILE else data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return None


def front_matter(text: str) -> tuple[Mapping[str, str], str]:
    r"""Return the fields of a front matter, and the text after it.

    Only fields with a text are read. It is not parsed as YAML: people write hints such as
    ``[file] [line]``, which are none.

    >>> front_matter("---\ndescription: 'Sums'\nargument-hint: [a] [b]\n---\nAdd $1 and $2.")
    ({'description': 'Sums', 'argument-hint': '[a] [b]'}, 'Add $1 and $2.')
    """
    lines = text.splitlines()
    if not lines or lines[0].rstrip() != "---":
        return {}, text
    end = next((place for place, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), None)
    if end is None:
        return {}, text
    fields: dict[str, str] = {}
    name = ""
    for line in lines[1:end]:
        found = _FIELD.fullmatch(line.rstrip())
        if found is not None:
            name = found[1].lower()
            fields[name] = "" if found[2] in ("|", ">", "|-", ">-") else _unquoted(found[2])
        elif name and line[:1] in (" ", "\t"):
            # A text of several lines.
            fields[name] = f"{fields[name]} {line.strip()}".strip()
    return fields, "\n".join(lines[end + 1 :])


def _unquoted(value: str) -> str:
    value = value.strip()
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if is_quoted else value


def _note(text: str) -> str:
    """Return a text as one short line without characters that hide."""
    line = " ".join(_HIDDEN.sub(" ", text).split())
    return line if len(line) <= MAX_NOTE else f"{line[: MAX_NOTE - 1]}…"


def _words(arguments: str) -> list[str]:
    try:
        return shlex.split(arguments)
    except ValueError:
        # An apostrophe.
        return arguments.split()

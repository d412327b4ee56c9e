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
from tk_ai_extension.notebooks.files import open_regular

MAX_FILE = 64_000
"""Maximum size of a prompt's file, in bytes; a longer one is not offered."""

Origin = Literal["user", "project"]
"""Where a prompt is from: the folder of the user's own, or the project's."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_CALL = re.compile(r"/([A-Za-z0-9][A-Za-z0-9_.:-]{0,300})(?:\s+(.*))?", re.DOTALL)
_FRONT_MATTER = re.compile(r"---[ \t]*\n((?:.*\n)*?)---[ \t]*(?:\n|\Z)")
_FIELD = re.compile(
    r"^([A-Za-z][A-Za-z0-9_-]*):[ \t]*(?:[|>]-?[ \t]*$)?(.*(?:\n[ \t]+.*)*)", re.MULTILINE
)
_PLACEHOLDER = re.compile(r"\$(?:ARGUMENTS|([1-9]))(?![A-Za-z0-9_])")


class PromptInfo(TypedDict):
    """A prompt, for a list of them.

    Attributes:
        name: What a person types after ``/``.
        description: What it is for; may be empty.
        hint: Its arguments; may be empty.
        origin: Whose it is.
        path: The file, relative to the root or to the home folder.
    """

    name: str
    description: str
    hint: str
    origin: Origin
    path: str


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
        return [info for info, _ in await asyncio.to_thread(self._read, user)]

    async def expand(self, user: str, text: str) -> str:
        """Return the text of a message: a prompt with its arguments, or the same text if it calls none.

        Raises:
            LimitReached: The message would be too long.
        """
        called = _CALL.fullmatch(text.strip())
        if called is None:
            return text
        prompts = await asyncio.to_thread(self._read, user)
        prompt = next((body for info, body in prompts if info["name"] == called[1]), "")
        message = with_arguments(prompt, (called[2] or "").strip()) if prompt else ""
        if len(message) > MAX_MESSAGE:
            raise LimitReached(
                f"With the prompt /{called[1]} the message has more than {MAX_MESSAGE} characters."
            )
        return message or text

    def _read(self, user: str) -> builtins.list[tuple[PromptInfo, str]]:
        found = _collect(self.root, "project") if self.root is not None else {}
        if user in self.owners:
            found |= _collect(self.home, "user")
        return [found[name] for name in sorted(found)]


def with_arguments(prompt: str, arguments: str) -> str:
    r"""Return the text of a prompt with its arguments.

    ``$ARGUMENTS`` stands for all arguments, ``$1`` to ``$9`` for one. Arguments that the text has
    no place for follow it.

    >>> with_arguments("Compare $1 with $2.", "'a b' $1")
    'Compare a b with $1.'
    >>> with_arguments("Look.", "here")
    'Look.\n\nARGUMENTS: here'
    """
    try:
        words = shlex.split(arguments)
    except ValueError:
        # An apostrophe.
        words = arguments.split()

    def given(found: re.Match[str]) -> str:
        number = found[1]
        return arguments if number is None else "".join(words[int(number) - 1 : int(number)])

    text, places = _PLACEHOLDER.subn(given, prompt)
    if arguments and not places:
        text += f"\n\nARGUMENTS: {arguments}"
    return text.strip()


def _collect(base: Path, origin: Origin) -> dict[str, tuple[PromptInfo, str]]:
    """Return the prompts in the folder ``.claude`` of a folder, with their texts, by name.

    No link may lead out of a project. The folders of the user's own may be links.
    """
    found: dict[str, tuple[PromptInfo, str]] = {}
    for path, name in _files(base / ".claude"):
        real = Path(os.path.realpath(path))
        if origin == "project" and not real.is_relative_to(os.path.realpath(base)):
            continue
        fields, body = front_matter(_text(real))
        if not body.strip() or fields.get("user-invocable", "").lower() == "false":
            continue
        info: PromptInfo = {
            "name": name,
            "description": fields.get("description", ""),
            "hint": fields.get("argument-hint", ""),
            "origin": origin,
            "path": path.relative_to(base).as_posix(),
        }
        found.setdefault(name, (info, body))
    return found


def _files(base: Path) -> Iterator[tuple[Path, str]]:
    """Yield the files of prompts, with the name of each (``folder:name`` below)."""
    commands, skills = base / "commands", base / "skills"
    for path in sorted(commands.rglob("*.md")):
        names = path.relative_to(commands).with_suffix("").parts
        if all(map(_NAME.fullmatch, names)):
            yield path, ":".join(names)
    for path in sorted(skills.glob("*/SKILL.md")):
        if _NAME.fullmatch(path.parent.name):
            yield path, path.parent.name


def _text(path: Path) -> str:
    """Return the text of a regular file without links in its path; empty if it is none, or too large."""
    try:
        with BufferedReader(open_regular(path)) as file:
            data = file.read(MAX_FILE + 1)
        return "" if len(data) > MAX_FILE else data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return ""


def front_matter(text: str) -> tuple[Mapping[str, str], str]:
    r"""Return the fields of a front matter, and the text after it.

    Only fields with a text are read. It is not parsed as YAML: people write hints such as
    ``[file] [line]``, which are none.

    >>> front_matter("---\ndescription: 'Sums'\nargument-hint: [a] [b]\n---\nAdd $1 and $2.")
    ({'description': 'Sums', 'argument-hint': '[a] [b]'}, 'Add $1 and $2.')
    """
    text = "\n".join(text.splitlines())
    found = _FRONT_MATTER.match(text)
    if found is None:
        return {}, text
    fields = {
        each[1].lower(): " ".join(each[2].split()).strip("'\"")
        for each in _FIELD.finditer(found[1])
    }
    return fields, text[found.end() :]

r"""Reader of private files, and parser of ``.secrets.env``.

The syntax is a small subset of the shell's: an optional ``export``, a name, ``=``, and a value that is
plain, in single quotes (as it is) or in double quotes (with the escapes ``\"``, ``\\``, ``\$`` and
``\n``). ``#`` begins a comment, at the start of a line or after a space. No variable is expanded and no
command is run. Errors name the line, never its value.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

MAX_BYTES = 64_000
"""Maximum size of a file of secrets, in bytes."""

_LINE = re.compile(
    r"""
    [ \t]* (?:export[ \t]+)?
    (?P<name>[A-Za-z_][A-Za-z0-9_]*) =
    (?: '(?P<single>[^']*)' | "(?P<double>(?:[^"\\]|\\.)*)" | (?P<plain>[^\s'"#$`\\][^\s'"`\\]*)? )
    [ \t]* (?:(?<=[ \t])\#.*)?
    """,
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(.)")


class SecretsFileError(ValueError):
    """A file of secrets cannot be used; the message has no value of it."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def parse(text: str, name: str = ".secrets.env") -> dict[str, str]:
    r"""Return the variables in the text of a file; of duplicate names the last one wins.

    Args:
        text: The file's content.
        name: The file's path for errors.

    Raises:
        SecretsFileError: a line is invalid.

    >>> parse("export A=1  # one\nB='a # b'\n\nC=\"x\\ny\"")
    {'A': '1', 'B': 'a # b', 'C': 'x\ny'}
    """
    values: dict[str, str] = {}
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise SecretsFileError(
                f"The file of keys {name} cannot be used: line {number} is not NAME=value, "
                "NAME='value' or NAME=\"value\". A value that begins with `$` needs single "
                "quotes."
            )
        double = match["double"]
        if double is not None:
            value = _ESCAPE.sub(lambda escape: "\n" if escape[1] == "n" else escape[1], double)
        else:
            value = match["single"] or match["plain"] or ""
        values[match["name"]] = value
    return values


def read_private(path: Path, *, refused_bits: int = 0o077) -> str | None:
    """Return the text of a file of this user; None if there is no file.

    Args:
        path: The file.
        refused_bits: Bits of a mode that the file must not have.

    Raises:
        SecretsFileError: it cannot be read, is a symbolic link, another user's, or open to others.
    """
    # O_NONBLOCK: opening a FIFO must not block.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        why = "it is a symbolic link" if path.is_symlink() else error.strerror
        raise SecretsFileError(f"{path!s} cannot be read: {why}.") from None
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise SecretsFileError(f"{path!s} cannot be read: it is not a regular file.")
        if os.name != "nt" and found.st_uid != os.geteuid():
            raise SecretsFileError(f"{path!s} is not used: it belongs to another user.")
        if os.name != "nt" and found.st_mode & refused_bits:
            raise SecretsFileError(
                f"{path!s} is not used: others can read or write it. Run `chmod 600` on it."
            )
        try:
            return file.read(MAX_BYTES).decode()
        except UnicodeDecodeError:
            # Not chained: that error would hold the file's bytes.
            raise SecretsFileError(f"{path!s} is not UTF-8 text.") from None

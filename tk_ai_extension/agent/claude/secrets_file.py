r"""Parser of ``.secrets.env``: one name and value per line, in a subset of the shell's syntax.

The syntax is small and strict: an optional ``export``, a name, ``=``, and a
value that is plain, in single quotes (as it is) or in double quotes (with the escapes ``\"``,
``\\``, ``\$`` and ``\n``). ``#`` begins a comment, at the start of a line or after a space. No
variable is expanded and no command is run. Errors name the line, never its value.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path

OTHERS_WRITE = 0o022
"""The bits of a mode that let others write a file."""
OTHERS_READ = 0o077
"""The bits of a mode that let others do anything with a file."""

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
_ESCAPED = {"n": "\n", '"': '"', "\\": "\\", "$": "$", "`": "`"}


class SecretsFileError(ValueError):
    """The file of secrets cannot be read; the message has the line and no value."""

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
        values[match["name"]] = _value(match)
    return values


def read(path: Path, *, refused_bits: int = OTHERS_WRITE) -> dict[str, str]:
    """Return the variables in a file; empty if there is no file.

    Args:
        path: The file; symbolic links are refused.
        refused_bits: Bits of a mode that the file must not have.

    Raises:
        SecretsFileError: it cannot be read, is not this user's own, or a line is none of the allowed
            ones.
    """
    # O_NONBLOCK: opening a FIFO must not block.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise SecretsFileError(
                f"{path!s} is ignored: it is reached by a symbolic link."
            ) from error
        raise _unreadable(path, error) from error
    try:
        _check(path, os.fstat(descriptor), refused_bits)
        data = _read(descriptor)
    except OSError as error:
        raise _unreadable(path, error) from error
    finally:
        os.close(descriptor)
    if len(data) > MAX_BYTES:
        raise SecretsFileError(f"{path!s} has more than {MAX_BYTES} bytes.")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        # Not chained: that error would hold the file's bytes.
        raise SecretsFileError(f"{path!s} is not UTF-8 text.") from None
    return parse(text, str(path))


def _unreadable(path: Path, error: OSError) -> SecretsFileError:
    why = error.strerror or str(error)
    return SecretsFileError(f"{path!s} cannot be read: {why}.")


def _check(path: Path, found: os.stat_result, refused_bits: int) -> None:
    """Check that a file belongs to this user and is private."""
    if not stat.S_ISREG(found.st_mode):
        raise SecretsFileError(f"{path!s} cannot be read: it is not a regular file.")
    if os.name == "nt":
        return
    if found.st_uid != os.geteuid():
        raise SecretsFileError(f"{path!s} is ignored: it belongs to another user.")
    if found.st_mode & refused_bits:
        action = "read" if refused_bits == OTHERS_READ else "write"
        raise SecretsFileError(
            f"{path} is not used: others can {action} it. Run `chmod 600` on it."
        )


def _read(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        return file.read(MAX_BYTES + 1)


def _value(match: re.Match[str]) -> str:
    if (quoted := match["double"]) is not None:
        return _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[0]), quoted)
    return match["single"] or match["plain"] or ""

r"""Parser of ``.secrets.env``.

The syntax is a small subset of the shell's: an optional ``export``, a name, ``=``, and a value that is
plain, in single quotes (as it is) or in double quotes (with the escapes ``\"``, ``\\``, ``\$`` and
``\n``). ``#`` begins a comment, at the start of a line or after a space. No variable is expanded and no
command is run. Errors name the line, never its value.
"""

from __future__ import annotations

import re

from tk_ai_extension.model.private_files import PrivateFileError

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


def parse(text: str, name: str = ".secrets.env") -> dict[str, str]:
    r"""Return the variables in the text of a file; of duplicate names the last one wins.

    Args:
        text: The file's content.
        name: The file's path for errors.

    Raises:
        PrivateFileError: a line is invalid.

    >>> parse("export A=1  # one\nB='a # b'\n\nC=\"x\\ny\"")
    {'A': '1', 'B': 'a # b', 'C': 'x\ny'}
    """
    values: dict[str, str] = {}
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise PrivateFileError(
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

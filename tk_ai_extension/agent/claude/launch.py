"""Starts Claude's program with just the environment that it is to have, and keys by descriptors.

Run by file, with ``python -I -S``, as the command that the Claude Agent SDK starts: the standard
library alone. What it starts is read from its standard input: eight digits, the length of a JSON
object, and that. The rest of the input is the program's.
"""

import json
import os
import sys

DIGITS = 8


def main() -> None:
    """Becomes the program."""
    said = json.loads(_read(int(_read(DIGITS))))
    # What the SDK has set of its own; it cannot unset anything, and empties what is not to be there.
    environment = {name: value for name, value in os.environ.items() if value}
    environment |= said["environment"]
    for name, key in said["descriptors"].items():
        reader, writer = os.pipe()
        os.write(writer, key.encode())
        os.close(writer)
        os.set_inheritable(reader, True)
        environment[name] = str(reader)
    # It leaves logs of its own.
    os.umask(0o077)
    os.execve(said["program"], [said["program"], *sys.argv[1:]], environment)  # noqa: S606 - with the SDK's own arguments


def _read(count: int) -> bytes:
    data = b""
    while len(data) < count:
        block = os.read(0, count - len(data))
        if not block:
            raise SystemExit("The input ended before all was said.")
        data += block
    return data


if __name__ == "__main__":
    main()

"""Launcher of Claude's program: sets its whole environment, and passes keys by file descriptors.

Run as a file with ``python -I -S`` by the Claude Agent SDK: the standard
library only. Standard input begins with eight digits, the length of a JSON
object that says what to start, and that object. The rest is the program's input.
"""

import json
import os
import sys

DIGITS = 8


def main() -> None:
    """Replace this process by the program."""
    said = json.loads(_read(int(_read(DIGITS))))
    # Variables that the SDK has set itself; it cannot unset variables, and sets them to "" instead.
    environment = {name: value for name, value in os.environ.items() if value}
    environment |= said["environment"]
    for name, key in said["descriptors"].items():
        reader, writer = os.pipe()
        os.write(writer, key.encode())
        os.close(writer)
        os.set_inheritable(reader, True)
        environment[name] = str(reader)
    # The program writes log files.
    os.umask(0o077)
    os.execve(said["program"], [said["program"], *sys.argv[1:]], environment)  # noqa: S606 - with the SDK's own arguments


def _read(count: int) -> bytes:
    data = b""
    while len(data) < count:
        block = os.read(0, count - len(data))
        if not block:
            raise SystemExit("The input ended early.")
        data += block
    return data


if __name__ == "__main__":
    main()

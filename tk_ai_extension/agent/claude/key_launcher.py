"""Launcher of Claude's program: passes keys by file descriptors.

Run as a file with ``python -I -S PROGRAM ARGUMENTS...`` by the Claude Agent SDK: the standard library
only. The first line of standard input is a JSON object: a key for each variable that names a descriptor.
The rest is the program's input.
"""

import json
import os
import sys


def main() -> None:
    """Replace this process by the program."""
    # The SDK cannot unset variables of the server; they are empty instead.
    environment = {name: value for name, value in os.environ.items() if value}
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            raise SystemExit("The input ended early.")
        line += byte
    for name, key in json.loads(line).items():
        reader, writer = os.pipe()
        os.write(writer, key.encode())
        os.close(writer)
        os.set_inheritable(reader, True)
        environment[name] = str(reader)
    # The program writes log files.
    os.umask(0o077)
    os.execve(sys.argv[1], sys.argv[1:], environment)  # noqa: S606 - with the SDK's arguments


if __name__ == "__main__":
    main()

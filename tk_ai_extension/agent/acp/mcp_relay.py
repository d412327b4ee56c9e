"""MCP server of an agent's session: relays its pipes to the socket that is its first argument.

Run as a file with ``python -I -S`` by the agent: the standard library only.
"""

import os
import socket
import sys
import threading


def main() -> None:
    """Relay until one side ends."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(sys.argv[1])
    threading.Thread(target=_send, args=(connection,), daemon=True).start()
    while data := connection.recv(1 << 16):
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def _send(connection: socket.socket) -> None:
    while data := os.read(0, 1 << 16):
        connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(f"The tools cannot be reached: {error.strerror}")

"""`nb mcp`: MCP over stdio, handed on byte by byte to the host, which speaks it.

The process that a client starts and ends holds nothing: kernels and what runs in them are the host's.
"""

from __future__ import annotations

import os
import selectors
import socket
import sys

from tk_ai_extension.cli import wire
from tk_ai_extension.cli.project import Project, Refused

CHUNK = 1 << 16

OPTIONS = ("--toolsets", "--mode", "--caller")


def relay(project: Project, argv: list[str]) -> int:
    """Connects standard input and output to the host's MCP until one side ends.

    Args:
        project: Whose host; it is started where there is none.
        argv: ``--toolsets default,omp``, ``--mode ask``.

    Returns:
        The exit status.

    Raises:
        Refused: a wrong call, or no host can be started.
    """
    wanted = _parse(argv)
    connection = project.connect(wire.MCP_SOCKET)
    if connection is None:
        from tk_ai_extension.cli.launch import launch

        launch(project)
        connection = project.connect(wire.MCP_SOCKET)
    if connection is None:
        raise Refused(f"the host does not answer; {project.log} may say why.")
    with connection:
        connection.sendall((wanted + "\n").encode())
        refused = _first_line(connection)
        if refused:
            raise Refused(refused)
        return _copy(connection)


def _first_line(connection: socket.socket) -> str:
    """What the host says to a connection's first line: nothing, or why it refuses."""
    said = b""
    while not said.endswith(b"\n"):
        byte = connection.recv(1)
        if not byte:
            return "the host ended before it had answered; see .nb/host.log."
        said += byte
    return said.decode().strip()


def _parse(argv: list[str]) -> str:
    """The first line that the host hears: what was typed, as JSON."""
    wanted: dict[str, str] = {}
    rest = list(argv)
    while rest:
        name, _, value = rest.pop(0).partition("=")
        if name not in OPTIONS:
            raise Refused(f"nb mcp does not know {name}; it takes --toolsets, --mode and --caller.")
        if not value:
            if not rest:
                raise Refused(f"nb mcp: {name} needs a value.")
            value = rest.pop(0)
        wanted[name[2:]] = value
    import json

    return json.dumps(wanted)


def _copy(connection: socket.socket) -> int:
    """Carries bytes until one side ends; the exit status."""
    ended = False
    incoming, outgoing = sys.stdin.fileno(), sys.stdout.fileno()
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        selector.register(incoming, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is connection:
                    data = connection.recv(CHUNK)
                    if not data:
                        return wire.OK if ended else _broken_off()
                    _write(outgoing, data)
                elif data := os.read(incoming, CHUNK):
                    connection.sendall(data)
                else:
                    # The client is gone, or has said all: what it still waits for may come.
                    ended = True
                    selector.unregister(incoming)
                    connection.shutdown(socket.SHUT_WR)


def _broken_off() -> int:
    sys.stderr.write("nb: the host ended the connection; see .nb/host.log.\n")
    return wire.UNREACHABLE


def _write(file: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]

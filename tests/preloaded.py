"""Kernels and servers that are forked from a process which has imported their modules already.

Most of a kernel's processor time and half of a server's goes to imports, and a whole run starts hundreds
of them. `install` makes `subprocess.Popen` fork ``python -m ipykernel_launcher`` and ``python
-m jupyter_server`` from such a process, one for each module, where that makes no difference to what runs:
arguments, environment, folder, descriptors and session are those of the call, and the new process is the
caller's own child. Everything else is started as ever. Linux alone has what this needs.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import resource
import runpy
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, ClassVar

import pytest
from jupyter_client import launcher

MODULES = {
    "ipykernel_launcher": (
        *("ipykernel.kernelapp", "ipykernel.ipkernel", "ipykernel.zmqshell", "ipykernel.inprocess"),
        *("IPython.core.completer", "IPython.core.magics", "IPython.core.history", "jedi"),
        *("ipykernel.comm", "ipykernel.datapub", "matplotlib_inline.config", "comm", "debugpy"),
    ),
    "jupyter_server": (
        *("jupyter_server.serverapp", "jupyter_server.services.contents.handlers", "terminado"),
        *("jupyter_server_terminals", "jupyter_server_nbmodel", "jupyter_server_fileid"),
        *("jupyter_server_ydoc", "jupyter_server_ydoc.app", "jupyterlab", "jupyterlab.labapp"),
        *("jupyter_lsp", "notebook_shim", "tk_ai_extension", "tk_ai_extension.server.extension"),
    ),
}
"""What is forked, and what it has imported: what is not installed is left out."""

PR_SET_CHILD_SUBREAPER = 36
LIMITS = ("RLIMIT_NOFILE", "RLIMIT_AS", "RLIMIT_FSIZE", "RLIMIT_NPROC", "RLIMIT_CORE")
MOST = 1_000_000
"""Bytes of a request."""


class Preloaded:
    """A process that has imported a module, and forks."""

    def __init__(self, module: str) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            # The spaces are room for the command lines of those that are forked.
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, module, str(theirs.fileno()), " " * 400],
                cwd=Path(__file__).parent.parent,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        self._lock = threading.Lock()
        self._libc = ctypes.CDLL(None, use_errno=True)
        atexit.register(self.close)

    def close(self) -> None:
        """End it."""
        self._channel.close()
        self._process.wait()

    def fork(self, request: dict[str, Any], descriptors: list[int]) -> int:
        """Fork a process that runs the module; its id. It is this process's child."""
        with self._lock:
            # Its parent ends at once. It is ours then, and not the init process's.
            self._libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            try:
                socket.send_fds(self._channel, [json.dumps(request).encode()], descriptors)
                return int(self._channel.recv(100))
            finally:
                self._libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


class Popen(subprocess.Popen[Any]):
    """`subprocess.Popen`, which forks what is preloaded."""

    _preloaded: ClassVar[dict[str, Preloaded]] = {}
    _starting = threading.Lock()

    def _execute_child(self, *arguments: Any) -> None:
        argv, executable, preexec_fn, _, pass_fds, cwd, env, *_ = arguments
        p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite = arguments[10:16]
        *_, gid, gids, uid, umask, new_session, process_group = arguments
        module = _module(argv)
        environment = dict(os.environ if env is None else env)
        is_plain = not (executable and executable != argv[0]) and preexec_fn is None
        is_plain &= not pass_fds and (gid, gids, uid, umask) == (None, None, None, -1)
        if module is None or not is_plain or process_group != -1 or _interpreter(environment):
            super()._execute_child(*arguments)  # type: ignore[misc]
            return
        with self._starting:
            if module not in self._preloaded:
                self._preloaded[module] = Preloaded(module)
        request = {
            "argv": [os.fspath(each) for each in argv],
            "cwd": os.fspath(cwd) if cwd is not None else os.getcwd(),  # noqa: PTH109 (may be gone)
            "env": {os.fsdecode(name): os.fsdecode(value) for name, value in environment.items()},
            "new_session": bool(new_session),
            "limits": [resource.getrlimit(getattr(resource, name)) for name in LIMITS],
        }
        if not Path(request["cwd"]).is_dir():
            super()._execute_child(*arguments)  # type: ignore[misc]  # it raises what it should
            return
        theirs = (p2cread, c2pwrite, errwrite)
        descriptors = [own if fd == -1 else fd for own, fd in enumerate(theirs)]
        self.pid = self._preloaded[module].fork(request, descriptors)
        self._child_created = True
        ours: Any = super()
        ours._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork what is preloaded, in this process, until the test ends."""
    if sys.platform == "linux":
        monkeypatch.setattr(subprocess, "Popen", Popen)
        monkeypatch.setattr(launcher, "Popen", Popen)


def _module(argv: Any) -> str | None:
    is_list = isinstance(argv, list | tuple)
    if not is_list or len(argv) < 3 or argv[0] != sys.executable or argv[1] != "-m":
        return None
    return argv[2] if argv[2] in MODULES else None


def _interpreter(environment: dict[Any, Any]) -> bool:
    """Whether the environment has something for the interpreter itself that this process has not."""
    own = {"PYTHONPATH", "PYTHONUNBUFFERED"}
    said = {name: value for name, value in environment.items() if str(name).startswith("PYTHON")}
    here = {name: value for name, value in os.environ.items() if name.startswith("PYTHON")}
    return {**said, **dict.fromkeys(own)} != {**here, **dict.fromkeys(own)}


# -- in the process that is preloaded


def serve(module: str, channel: socket.socket) -> dict[str, Any] | None:
    """Fork for each request; the request, in a process that was forked, and None at the end."""
    for name in MODULES[module]:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()
    while True:
        message, descriptors, _, _ = socket.recv_fds(channel, MOST, 3)
        if not message:
            return None
        said, going = os.pipe(), os.pipe()
        if not (between := os.fork()):
            if os.fork():
                os._exit(0)
            request = json.loads(message)
            # The caller may ask for its session as soon as it has the id.
            if request["new_session"]:
                os.setsid()
            os.write(said[1], str(os.getpid()).encode())
            # It runs once this process has its new parent.
            os.close(going[1])
            os.read(going[0], 1)
            _become(request, descriptors)
            return request
        pid = os.read(said[0], 100)
        os.waitpid(between, 0)
        channel.send(pid)
        for descriptor in (*said, *going, *descriptors):
            os.close(descriptor)


def _become(request: dict[str, Any], descriptors: list[int]) -> None:
    for own, descriptor in enumerate(descriptors):
        os.dup2(descriptor, own)
    os.closerange(3, max(map(int, os.listdir("/proc/self/fd"))) + 1)  # noqa: PTH208
    os.chdir(request["cwd"])
    before = os.environ.get("PYTHONPATH", "")
    os.environ.clear()
    os.environ.update(request["env"])
    sys.path[0] = request["cwd"]
    if (path := os.environ.get("PYTHONPATH", "")) != before:
        added = [entry for entry in path.split(os.pathsep) if entry and entry not in sys.path]
        sys.path[1:1] = added
    for name, limit in zip(LIMITS, request["limits"], strict=True):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(getattr(resource, name), limit)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = request["argv"][2:]
    sys.orig_argv = request["argv"]
    _write_command_line(request["argv"])


def _write_command_line(argv: list[str]) -> None:
    """Show the arguments in ``/proc/PID/cmdline``, where leaks are looked for."""
    fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])  # arg_start, arg_end
    line = b"\0".join(os.fsencode(each) for each in argv)[: end - start - 1]
    ctypes.memmove(start, line.ljust(end - start, b"\0"), end - start)


if __name__ == "__main__":
    name = sys.argv[1]
    with socket.socket(fileno=int(sys.argv[2])) as parent:
        request = serve(name, parent)
        parent.detach()
    if request is not None:
        runpy.run_module(name, run_name="__main__", alter_sys=True)

"""Processes that are forked from one which has imported their modules.

Most of a kernel's processor time, and more than half of a server's, goes to imports, and a whole run
starts hundreds of them. `install` makes `subprocess.Popen` fork ``python -m MODULE`` for the `FORKED`
modules where that makes no difference to what runs: arguments, environment, folder, descriptors and
session are those of the call, and the new process is the caller's own child. So are the kernels of a
server that was forked. Everything else is started as ever. Linux alone has what this needs.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import inspect
import json
import os
import pkgutil
import runpy
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import httpcore2
import pytest
from jupyter_client import launcher
from jupyter_events.schema import EventSchema
from jupyter_events.schema_registry import SchemaRegistry
from jupyter_server import DEFAULT_EVENTS_SCHEMA_PATH, _sysinfo

FORKED = {
    "ipykernel_launcher": False,
    "jupyter_server": True,
    "tk_ai_extension.server.headless": True,
    "tk_ai_extension.cli": True,
    "tk_ai_extension.kernels.sharing": False,
}
"""The modules that are forked, and whether they may start such processes themselves."""

IMPORTED = (
    *("ipykernel.kernelapp", "ipykernel.ipkernel", "ipykernel.zmqshell", "ipykernel.inprocess"),
    *("IPython.core.completer", "IPython.core.magics", "IPython.core.history", "jedi"),
    *("IPython.core.completerlib", "IPython.core.debugger", "IPython.extensions.storemagic"),
    *("stack_data", "pygments.formatters.terminal256", "IPython.core.logger", "faulthandler"),
    *("ipykernel.comm", "ipykernel.datapub", "ipykernel.debugger", "comm"),
    *("jupyter_server.serverapp", "jupyter_server_terminals", "terminado", "notebook_shim"),
    *("jupyter_server_nbmodel", "jupyter_server_fileid.extension", "jupyter_server_ydoc.app"),
    *("jupyterlab.labapp", "jupyterlab.extensions", "jupyterlab_server.handlers", "jupyter_lsp"),
    *("jupyter_server.kernelspecs.handlers", "jupyter_server.nbconvert.handlers", "jinja2.ext"),
    *("jupyter_server.view.handlers", "ipykernel.kernelspec", "nbconvert.exporters", "babel.dates"),
    *("claude_agent_sdk", "jupyter_lsp.virtual_documents_shadow"),
    *("httpcore", "anyio._backends._asyncio", "tornado.platform.asyncio", "notebook.app"),
)
"""What has been imported: what is not installed is left out."""

PACKAGES = ("jupyter_server.services", "tk_ai_extension")
"""Packages of which each module has been, without programs and what only tests use."""

RELOADED = ("jedi.settings", "parso.cache", "send2trash.plat_other")
"""Modules that read the environment when they are imported, and whose functions alone are used."""

FORGOTTEN = {
    "ipykernel.kernelapp",
    "jupyter_server_fileid",
    "jupyter_server_fileid.extension",
    "jupyter_server_fileid.manager",
    "jupyterlab",
    "jupyterlab.labapp",
}
"""Modules that read it for the defaults of their classes: they are imported again."""

LIMITS = ("RLIMIT_NOFILE", "RLIMIT_AS", "RLIMIT_FSIZE", "RLIMIT_NPROC", "RLIMIT_CORE")
PR_SET_CHILD_SUBREAPER = 36
MADV_COLLAPSE = 25
HUGE_PAGE = 2 << 20
"""Bytes."""
PROGRAM = "from tests import preloaded; preloaded.main()"
MAX_REQUEST = 1_000_000
"""Bytes of a request."""

PATH: list[str] = []
"""`sys.path` without the working directory."""
FINDERS: list[Any] = []
"""What found modules before the fork."""


class Preloaded:
    """A connection to a process that has imported the modules, and forks."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._libc = ctypes.CDLL(None, use_errno=True)

    @classmethod
    def start(cls, environment: Mapping[str, str]) -> Preloaded:
        """Start the process; it ends with this one."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            # The spaces are room for the command lines of those that are forked.
            process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(theirs.fileno()), " " * 1000],
                cwd=Path(__file__).parent.parent,
                env=environment,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )

        def close() -> None:
            ours.close()
            process.wait()

        atexit.register(close)
        return cls(ours)

    def fork(self, request: dict[str, Any], descriptors: list[int]) -> int:
        """Fork a process that runs a module; its id. It is this process's child."""
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

    preloaded: ClassVar[Preloaded | None] = None
    environment: ClassVar[dict[str, str]] = {}
    """What the preloaded process is started with, whatever a test has set by then."""
    interpreter: ClassVar[dict[str, str]] = {}
    """What it reads before it runs anything."""
    _starting: ClassVar[threading.Lock] = threading.Lock()

    def _execute_child(self, *arguments: Any) -> None:
        argv, executable, preexec_fn, _, pass_fds, cwd, env, *_ = arguments
        p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite = arguments[10:16]
        *_, gid, gids, uid, umask, new_session, process_group = arguments
        environment = dict(os.environ if env is None else env)
        is_plain = not (executable and executable != argv[0]) and preexec_fn is None
        is_plain &= not pass_fds and (gid, gids, uid, umask) == (None, None, None, -1)
        is_plain &= process_group == -1 and is_forked(argv)
        folder = os.fspath(cwd) if cwd is not None else os.getcwd()  # noqa: PTH109 (may be gone)
        if is_plain:
            with self._starting:
                if Popen.preloaded is None:
                    Popen.interpreter = for_interpreter(Popen.environment)
                    Popen.preloaded = Preloaded.start(Popen.environment)
        is_plain &= for_interpreter(environment) == Popen.interpreter
        if Popen.preloaded is None or not (is_plain and Path(folder).is_dir()):
            super()._execute_child(*arguments)  # type: ignore[misc]
            return
        import resource  # POSIX only

        request = {
            "argv": [os.fspath(each) for each in argv],
            "cwd": folder,
            "env": {os.fsdecode(name): os.fsdecode(value) for name, value in environment.items()},
            "new_session": bool(new_session),
            "limits": [resource.getrlimit(getattr(resource, name)) for name in LIMITS],
        }
        theirs = (p2cread, c2pwrite, errwrite)
        descriptors = [own if fd == -1 else fd for own, fd in enumerate(theirs)]
        self.pid = Popen.preloaded.fork(request, descriptors)
        self._child_created = True
        ours: Any = super()
        ours._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork what is preloaded, in this process, until the test ends."""
    if sys.platform == "linux":
        Popen.environment = dict(os.environ)
        monkeypatch.setattr(subprocess, "Popen", Popen)
        monkeypatch.setattr(launcher, "Popen", Popen)
    for owner, name, function in computed_once():
        monkeypatch.setattr(owner, name, function)


def is_forked(argv: Any) -> bool:
    """Whether arguments are those of a module that is forked."""
    if not isinstance(argv, list | tuple) or not argv or argv[0] != sys.executable:
        return False
    words = [word for word in argv[1:4] if word != "-P"]
    return len(words) > 1 and words[0] == "-m" and words[1] in FORKED


def for_interpreter(environment: Any) -> dict[str, str]:
    """Return the variables that an interpreter reads before it runs anything."""
    return {
        os.fsdecode(name): os.fsdecode(value)
        for name, value in environment.items()
        if os.fsdecode(name).startswith(("PYTHON", "LANG", "LC_"))
        and os.fsdecode(name) != "PYTHONUNBUFFERED"
    }


def computed_once() -> list[tuple[Any, str, Callable[..., Any]]]:
    """Return functions whose results a process keeps, each with its owner and name there."""
    return [
        (httpcore2, "default_ssl_context", shared_tls_context()),
        (SchemaRegistry, "register", registration_of_made_schemas()),
        # A new git process for each server asks which commit of Jupyter this is.
        (_sysinfo, "pkg_commit_hash", cache(_sysinfo.pkg_commit_hash)),
    ]


def shared_tls_context() -> Callable[..., ssl.SSLContext]:
    """Return what gives all HTTP clients of a process one context: each would read 140 certificates."""
    make = httpcore2.default_ssl_context

    @cache
    def made(trust_env: bool, *_certificates: str | None) -> ssl.SSLContext:
        return make(_trust_env=trust_env)

    def context(*, _trust_env: bool = True) -> ssl.SSLContext:
        return made(_trust_env, *map(os.environ.get, ("SSL_CERT_FILE", "SSL_CERT_DIR")))

    return context


def registration_of_made_schemas() -> Callable[..., EventSchema]:
    """Return what registers schemas of events; each is read and validated once, not for each server."""
    register, made = SchemaRegistry.register, cache(EventSchema)

    def register_made(registry: SchemaRegistry, schema: Any) -> EventSchema:
        return register(registry, made(schema) if isinstance(schema, Path) else schema)

    return register_made


# -- in the process that is preloaded


def preload() -> None:
    """Import everything."""
    # The debugger would write a note about Python's own frozen modules.
    os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"
    # At each start, JupyterLab asks yarn for the registry of packages that it never installs here, and
    # jupyter-lsp asks npm for a folder of language servers; for each page, JupyterLab asks for node's
    # version, as if it were to be built: node processes all three.
    with contextlib.suppress(ImportError):
        commands: Any = importlib.import_module("jupyterlab.commands")
        commands._yarn_config = lambda _: {"yarn config": {}}
        commands._node_check = lambda _: None
    with contextlib.suppress(ImportError):
        types: Any = importlib.import_module("jupyter_lsp.types")
        types.LanguageServerManagerAPI._npm_prefix = lambda *_: None
    names = [*IMPORTED]
    for package in PACKAGES:
        folders = importlib.import_module(package).__path__
        names += [found.name for found in pkgutil.walk_packages(folders, f"{package}.")]
    for name in names:
        if not name.endswith(".__main__") and ".testing" not in name:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
    compute()
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
    if sys.platform == "linux":
        collapse_memory()


def collapse_memory() -> None:
    """Move the process's memory into huge pages: to fork it, and to end such a process, takes a quarter.

    Does nothing where the kernel cannot (Linux before 6.1).
    """
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, mode, _, _, _, *name = line.split()
        if mode == "rw-p" and name in ([], ["[heap]"]):
            start, end = (int(address, 16) // HUGE_PAGE for address in addresses.split("-"))
            if end > start + 1:
                madvise((start + 1) * HUGE_PAGE, (end - start - 1) * HUGE_PAGE, MADV_COLLAPSE)


def compute() -> None:
    """Compute what each process would compute of the modules alone, and keep."""
    from nbformat.validator import get_validator

    from tk_ai_extension.tools.registry import Registry

    for owner, name, function in computed_once():
        setattr(owner, name, function)
    httpcore2.default_ssl_context()
    for schema in DEFAULT_EVENTS_SCHEMA_PATH.rglob("*.yaml"):
        SchemaRegistry().register(schema)  # type: ignore[arg-type]
    _sysinfo.get_sys_info()
    for tool in Registry.load():
        _ = tool.input_schema, tool.output_schema
    for minor in (4, 5):
        get_validator(4, minor)
    # IPython asks it for each frame of a traceback; it lists all modules when it is asked first.
    inspect.getmodule(inspect.currentframe())


def serve(channel: socket.socket) -> dict[str, Any] | None:
    """Fork for each request; the request, in a process that was forked, and None at the end."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(channel, MAX_REQUEST, 3)
        if not message:
            return None
        ready, going = os.pipe(), os.pipe()
        if not (between := os.fork()):
            if os.fork():
                os._exit(0)
            request = json.loads(message)
            # The caller may ask for its session as soon as it has the id.
            if request["new_session"]:
                os.setsid()
            os.write(ready[1], str(os.getpid()).encode())
            # It runs once this process has its new parent.
            os.close(going[1])
            os.read(going[0], 1)
            for own, descriptor in enumerate(descriptors):
                os.dup2(descriptor, own)
            channel.detach()
            os.closerange(3, max(map(int, os.listdir("/proc/self/fd"))) + 1)  # noqa: PTH208
            return request
        pid = os.read(ready[0], 100)
        os.waitpid(between, 0)
        channel.send(pid)
        for descriptor in (*ready, *going, *descriptors):
            os.close(descriptor)


def become(request: dict[str, Any]) -> str:
    """Take on what a request says; the module to run."""
    import resource  # POSIX only

    argv = request["argv"]
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.path[:] = [*([] if "-P" in argv[1:3] else [request["cwd"]]), *PATH]
    for name, limit in zip(LIMITS, request["limits"], strict=True):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(getattr(resource, name), limit)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    module = argv.index("-m") + 1
    sys.argv = argv[module:]
    sys.orig_argv = argv
    _write_command_line(argv)
    _open_streams()
    for name in RELOADED if argv[module] != "tk_ai_extension.cli" else ():
        if name in sys.modules:
            importlib.reload(sys.modules[name])
    for name in FORGOTTEN & sys.modules.keys():
        package, _, own = name.rpartition(".")
        if package in sys.modules:
            vars(sys.modules[package]).pop(own, None)
        del sys.modules[name]
    # What has been installed since is found, too. To free what is known would copy it first.
    FINDERS.append(sys.path_importer_cache)
    sys.path_importer_cache = {}
    return argv[module]


def _open_streams() -> None:
    write_through = bool(os.environ.get("PYTHONUNBUFFERED"))
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        before = getattr(sys, name)
        errors = "backslashreplace" if name == "stderr" else before.errors
        stream = open(  # noqa: SIM115
            number, "w" if number else "r", encoding=before.encoding, errors=errors, closefd=False
        )
        is_by_line = number == 2 or (number == 1 and stream.isatty())
        stream.reconfigure(line_buffering=is_by_line, write_through=write_through and number > 0)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _write_command_line(argv: list[str]) -> None:
    """Show the arguments in ``/proc/PID/cmdline``, where leaks are looked for."""
    fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])  # arg_start, arg_end
    line = b"\0".join(os.fsencode(each) for each in argv)[: end - start - 1]
    ctypes.memmove(start, line.ljust(end - start, b"\0"), end - start)


def run(request: dict[str, Any]) -> None:
    """Run the module of a request, as ``python -m`` does, and end the process."""
    module = become(request)
    if FORKED[module]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if not os.fork():
            # What this process starts is forked from here: its modules are as they were.
            ours.close()
            _write_command_line(["preloaded"])
            # A folder that it stays in cannot be unmounted.
            os.chdir("/")
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            null = os.open(os.devnull, os.O_RDWR)
            for own in range(3):
                os.dup2(null, own)
            if (further := serve(theirs)) is not None:
                run(further)
            os._exit(0)
        theirs.close()
        Popen.preloaded, Popen.interpreter = Preloaded(ours), for_interpreter(os.environ)
        subprocess.Popen = launcher.Popen = Popen
    os._exit(_exit_code(module))


def _exit_code(module: str) -> int:
    """Run a module to its end, without taking its hundreds of modules apart."""
    code: Any = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code
        if code is not None and not isinstance(code, int):
            sys.stderr.write(f"{code}\n")
            code = 1
    except BaseException as error:  # noqa: BLE001 (as the interpreter itself does)
        sys.excepthook(type(error), error, error.__traceback__)
        code = -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except (OSError, ValueError):
        code = code or 120
    if code == -signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    return (code or 0) & 0xFF


def main() -> None:
    """Import everything, then fork for the process at the other end of a socket."""
    PATH[:] = sys.path[1:]
    preload()
    with socket.socket(fileno=int(sys.argv[1])) as parent:
        request = serve(parent)
    if request is not None:
        run(request)

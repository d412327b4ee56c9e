"""What all tests share: one event loop, quiet clean-up, kernels of another language."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sqlite3
import ssl
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlite_anyio.sqlite
import zmq
from hypothesis import HealthCheck, settings
from jupyter_client.multikernelmanager import MultiKernelManager
from jupyter_core.application import JupyterApp
from jupyter_events.schema import EventSchema
from jupyter_events.schema_registry import SchemaRegistry
from jupyter_server import serverapp
from jupyter_server._sysinfo import get_sys_info
from jupyter_server.serverapp import ServerApp
from jupyter_server.services.sessions import sessionmanager
from nbformat import sign
from traitlets.config import Application, Config
from xdist.scheduler.loadscope import LoadScopeScheduling

from tests import sandboxes
from tests.harness import end_server
from tests.kept_kernels import keeping_kernels
from tests.limits import limit

NO_DEBUGGER = Path(__file__).parent / "support" / "no_debugger"
WITH_DEBUGGER = os.environ.get("PYTHONPATH", "").removeprefix(str(NO_DEBUGGER)).lstrip(os.pathsep)
PYTHONPATH = os.pathsep.join(filter(None, [str(NO_DEBUGGER), WITH_DEBUGGER]))
os.environ["PYTHONPATH"] = PYTHONPATH

SCENES = 300
"""Timeout of a test with a browser, in seconds: it has several scenes, and CI may be slow."""


def pytest_configure(config: pytest.Config) -> None:
    """Prepare what decorators of tests look at when they are imported."""
    sandboxes.provide()
    # Hypothesis measures by the clock how long values and cases take: on a busy machine that fails.
    slow = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("tests", slow)
    settings.register_profile("soak", slow, max_examples=2_000, database=None)
    settings.load_profile(config.getoption("hypothesis_profile") or "tests")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Limits how long tests wait, and begins with those of a browser, which take longest."""
    items.sort(key=lambda item: "browser" not in item.path.parts)
    for item in items:
        if "browser" in item.path.parts:  # the closest mark counts: this one is not that of a test
            item.add_marker(pytest.mark.timeout(SCENES), append=True)
        limit(item)


class ByServers(LoadScopeScheduling):
    """Has one worker run the tests that use the same servers: the module's, or JupyterLab's.

    A worker starts a JupyterLab for 4 processor seconds, and a browser for 2.
    """

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.partition("::")[0]
        return "browser" if "browser" in Path(module).parts else module


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByServers:
    """Distribute tests among the workers, in order."""
    config.option.loadscopereorder = False
    return ByServers(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Have the garbage collector look for cycles less often, and not among what stays.

    It took a twelfth of the workers' processor time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)


@pytest.fixture(scope="session", autouse=True)
def temporary_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The temporary folder of the tests and of all that they start, which pytest removes.

    What a test kills leaves its sockets behind. The name is short: so is a socket's path.
    """
    folder = str(tmp_path_factory.mktemp("t"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", folder)
        yield


@pytest.fixture(scope="session", autouse=True)
def kept_kernels(temporary_folder: None) -> Iterator[None]:
    """Kernels of the servers of this process go from one test to the next."""
    with keeping_kernels():
        yield


@pytest.fixture(scope="session", autouse=True)
def forgotten_kernel_managers() -> Iterator[None]:
    """Terminate the ZeroMQ contexts of garbage-collected kernel managers in separate threads.

    The garbage collector may find a manager before the sockets of its context, which the context does not
    know any more: to terminate it then waits for them for ever, in any thread, and so does the test.
    """

    def terminate_in_thread(manager: Any) -> None:
        context = manager.context if manager._created_context else None
        if context is not None and not context.closed:
            # It does not terminate itself: it would wait, too.
            context._shadow = True
            for socket in list(context._sockets):
                socket.close(linger=0)
            term = zmq.Context.shadow(context.underlying).term
            threading.Thread(target=term, name="zmq_term", daemon=True).start()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MultiKernelManager, "__del__", terminate_in_thread)
        yield


class ForgottenDatabase(sqlite3.Connection):
    """A database that is closed when it is garbage, without the warning of Python since 3.13."""

    def __del__(self) -> None:
        with suppress(sqlite3.ProgrammingError):  # In a thread that has not opened it.
            self.close()


@pytest.fixture(scope="session", autouse=True)
def forgotten_databases() -> Iterator[None]:
    """Have Jupyter's databases of sessions, signatures and rooms closed, which Jupyter does not do."""
    connect = partial(sqlite3.connect, factory=ForgottenDatabase)
    namespace = SimpleNamespace(**{**vars(sqlite3), "connect": connect})
    with pytest.MonkeyPatch.context() as patch:
        for module in (sessionmanager, sign, sqlite_anyio.sqlite):
            patch.setattr(module, "sqlite3", namespace)
        # It fails where the garbage collector runs in another thread.
        patch.delattr(sessionmanager.SessionManager, "__del__")
        yield


@pytest.fixture(scope="session", autouse=True)
def quick_servers() -> Iterator[None]:
    """Servers of this process start without a parser, without configuration files, with known schemas.

    Where there are no arguments, the parser of all possible ones is not made. Tests configure by fixtures.
    A schema of events is read once. Servers that are started as processes have all of it.
    """
    parse, register = Application.parse_command_line, SchemaRegistry.register
    schema = cache(EventSchema)
    system = get_sys_info()

    def parse_some(application: Application, argv: list[str] | None = None) -> None:
        if argv is None or len(argv) > 0:
            parse(application, argv)
            return
        application.argv, application.extra_args, application.cli_config = [], [], Config()

    def register_known(registry: SchemaRegistry, path: Any) -> EventSchema:
        return register(registry, schema(path) if isinstance(path, Path) else path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Application, "parse_command_line", parse_some)
        patch.setattr(JupyterApp, "load_config_file", lambda _: None)
        patch.setattr(SchemaRegistry, "register", register_known)
        # It asks git for a commit.
        patch.setattr(serverapp, "get_sys_info", lambda: system)
        yield


@pytest.fixture(scope="session", autouse=True)
def one_ssl_context() -> Iterator[None]:
    """Load the certificates of authorities once: it takes 25 ms, and each client of HTTP would do it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", cache(ssl.create_default_context))
        yield


# Asserts of the conformance suites explain themselves like any test's.
pytest.register_assert_rewrite("tests.support")


@pytest.fixture
def jp_environ(jp_environ: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of pytest-jupyter, with the PYTHONPATH of the tests."""
    monkeypatch.setenv("PYTHONPATH", PYTHONPATH)


@pytest.fixture
def debugger(jp_environ: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels that start in the test have a debugger, as those of a person have."""
    monkeypatch.setenv("PYTHONPATH", WITH_DEBUGGER)


@pytest.fixture
async def jp_asyncio_loop() -> asyncio.AbstractEventLoop:
    """The loop on which pytest-jupyter's server lives: the one that runs the test.

    pytest-jupyter would make a second one, and a request to a server on a loop that does not run is
    never answered.
    """
    return asyncio.get_running_loop()


@pytest.fixture
def jp_nbconvert_templates() -> None:
    """No copy of nbconvert's templates: pytest-jupyter's own makes 50 files for each server."""


@pytest.fixture
def jp_server_cleanup(request: pytest.FixtureRequest) -> Iterator[None]:
    """Stops the server, where the test had one.

    pytest-jupyter's own starts one for each test in order to stop it.
    """
    if "jp_configurable_serverapp" not in request.fixturenames:
        yield
        return
    loop: asyncio.AbstractEventLoop = request.getfixturevalue("jp_asyncio_loop")
    yield
    app = ServerApp.instance()
    loop.run_until_complete(end_server(app))
    ServerApp.clear_instance()


@pytest.fixture
def jp_server_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    """What every server of a test has; a module that needs more asks for this one and adds to it.

    The working directory is the test's own: collaboration keeps the history of a room that the
    server opened there, whatever `SQLiteYStore.db_path` says. So is the database of file ids, which
    would be the user's else: two tests that write it at once lock each other out.
    """
    monkeypatch.chdir(tmp_path)
    return Config(
        {
            "ServerApp": {"jpserver_extensions": {"jupyter_server_terminals": True}},
            "BaseFileIdManager": {"db_path": str(tmp_path / "file_id.db")},
        }
    )


@pytest.fixture
def bash_kernelspec(jp_kernel_dir: Path) -> str:
    """The name of a kernelspec of another language, where pytest-jupyter's server finds it."""
    folder = jp_kernel_dir / "bash"
    folder.mkdir()
    spec = {
        "argv": [sys.executable, "-m", "bash_kernel", "-f", "{connection_file}"],
        "display_name": "Bash",
        "language": "bash",
        "env": {"PS1": "$"},
    }
    (folder / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    return folder.name

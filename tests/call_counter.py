"""A server extension that counts function calls, SQLite's transactions and modules.

It is loaded into a server of `test_costs.py` and answers ``GET costs/counts``.
"""

from __future__ import annotations

import sqlite3
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import url_path_join
from tornado.web import authenticated

PACKAGE = str(Path(__file__).parent.parent / "tk_ai_extension")

connect = sqlite3.connect


class Counter:
    """The counts of this process since its start.

    Attributes:
        calls: Calls of Python and C functions, and resumptions of coroutines, in all threads.
        transactions: Commits to the extension's own databases.
        modules: Modules of the package with a call since the last question.
    """

    def __init__(self) -> None:
        self.calls = 0
        self.transactions = 0
        self.modules: set[str] = set()

    def profile(self, frame: FrameType, event: str, _argument: object) -> None:
        """Count a call; a hook of `sys.setprofile`."""
        if event in {"call", "c_call"}:
            self.calls += 1
            self.modules.add(frame.f_code.co_filename)

    def trace(self, statement: str) -> None:
        """Count a commit; a trace callback of SQLite."""
        self.transactions += statement == "COMMIT"

    def connect(self, database: Any, *args: Any, **options: Any) -> sqlite3.Connection:
        """Connect to a database, counting if it is one of the extension's."""
        connection = connect(database, *args, **options)
        if "tk-ai" in str(database):
            connection.set_trace_callback(self.trace)
        return connection

    def answer(self) -> dict[str, Any]:
        """Return the counts, and the modules since the last question."""
        modules = sorted(
            module.removeprefix(f"{PACKAGE}/")
            for module in self.modules
            if module.startswith(PACKAGE)
        )
        self.modules.clear()
        return {"calls": self.calls, "transactions": self.transactions, "modules": modules}


class CountsHandler(APIHandler):
    """Answers with the counts."""

    counter: Counter

    def initialize(self, counter: Counter) -> None:
        """Keep the counter."""
        self.counter = counter

    @authenticated
    async def get(self) -> None:
        """Answer with the counts."""
        self.finish(self.counter.answer())


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "tests.call_counter"}]


def _load_jupyter_server_extension(app: Any) -> None:
    counter = Counter()
    address = url_path_join(app.web_app.settings["base_url"], "costs/counts")
    app.web_app.add_handlers(".*$", [(address, CountsHandler, {"counter": counter})])
    setattr(sqlite3, "connect", counter.connect)  # noqa: B010 - the type checker wants its overloads
    threading.setprofile(counter.profile)
    sys.setprofile(counter.profile)

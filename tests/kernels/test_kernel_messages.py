"""What a kernel sends: no message of any form stops a connection, and no lost one an execution."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jupyter_client.session import Session

from tk_ai_extension.kernels import pages
from tk_ai_extension.kernels.base import Message
from tk_ai_extension.kernels.base_connection import BaseKernelConnection, Channel
from tk_ai_extension.kernels.execution_listener import ExecutionListener, Timeouts
from tk_ai_extension.kernels.pages import PageClient
from tk_ai_extension.model.executions import Execution, ExecutionRequest

DEADLINE = 5


class Notes:
    """Notes what happens in the kernel."""

    def __init__(self) -> None:
        self.states: list[Any] = []

    def on_state(self, state: Any) -> None:
        self.states.append(state)

    def on_run(self, code: str, execution_count: int | None, parent: Mapping[str, Any]) -> None:  # noqa: ARG002 - the protocol's
        assert isinstance(code, str)
        assert isinstance(execution_count, int | None)

    def on_display_update(self, content: Mapping[str, Any]) -> None:
        pass

    def on_stopping(self, restart: bool) -> None:
        pass

    def on_disconnect(self, connection: BaseKernelConnection) -> None:  # noqa: ARG002 - the protocol's
        raise AssertionError


class Connection(BaseKernelConnection):
    """A connection whose other end is the test."""

    def __init__(self) -> None:
        self.notes = Notes()
        super().__init__(Session(), self.notes)

    async def connection(self, kernel_id: str) -> BaseKernelConnection:  # noqa: ARG002 - the protocol's
        """This connection, for every kernel."""
        return self

    def receive(
        self, channel: str, kind: Any, parent: Any, content: Any, msg_id: Any = "k_1_1"
    ) -> None:
        """Receives a message."""
        if not isinstance(parent, dict):
            parent = {"msg_id": parent, "msg_type": "execute_request"}
        header = {"msg_id": msg_id, "msg_type": kind}
        message = {"header": header, **header, "parent_header": parent, "content": content}
        self._receive(channel, message)

    def _transmit(self, channel: Channel, message: Message) -> None:
        pass

    def _close_transport(self) -> None:
        pass


def listener(**timeouts: float) -> ExecutionListener:
    async def interrupt() -> None:
        pass

    return ExecutionListener(
        ExecutionRequest("code"),
        backend="direct",
        interrupt=interrupt,
        stopping=lambda: False,
        timeouts=Timeouts(**timeouts),
    )


def strange(*usual: Any) -> st.SearchStrategy[Any]:
    """Values that a message may have somewhere: usual ones, and any other JSON."""
    scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
    anything = st.recursive(
        scalars,
        lambda inner: (
            st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
        ),
        max_leaves=3,
    )
    return st.sampled_from(usual) | anything


KINDS = (
    *("status", "stream", "error", "execute_input", "execute_result", "display_data"),
    *("update_display_data", "clear_output", "comm_open", "comm_msg", "comm_close"),
    *("execute_reply", "input_request", "kernel_info_reply", "shutdown_reply"),
)

FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "execution_state": strange("busy", "idle", "starting"),
    "execution_count": strange(1),
    "code": strange("1"),
    "text": strange("text\b", ["te", "xt"]),
    "name": strange("stdout"),
    "status": strange("ok", "error", "aborted"),
    "payload": strange([{"source": "page", "data": {"text/plain": "?"}}], [{"source": "page"}]),
    "ename": strange("KeyboardInterrupt"),
    "traceback": strange(["line"]),
    "user_expressions": strange({}),
    "restart": strange(True),
    "wait": strange(True),
    "prompt": strange("? "),
    "metadata": strange({}),
    "transient": strange({"display_id": "x"}, {"display_id": ["x"]}),
    "comm_id": strange("comm"),
    "data": strange(
        {"text/plain": "1"},
        {"application/x-other-status": 1},
        {"state": {"msg_id": "REQUEST"}},
        {"state": {"outputs": [{"output_type": ["stream"]}]}},
        {"state": {"outputs": [{"output_type": "stream", "text": 1}]}},
    ),
}

MESSAGES = st.lists(
    st.tuples(
        st.sampled_from(["iopub", "shell", "control", "stdin"]),
        strange(*KINDS) | st.sampled_from(KINDS),
        strange("REQUEST") | st.just("REQUEST"),
        strange({}) | st.fixed_dictionaries({}, optional=FIELDS),
        strange("s_1_1", "s_1_²", f"s_1_{'9' * 5000}"),
    ),
    max_size=8,
)


def to(request: str, value: Any) -> Any:
    """A value with the request's id in place of its name."""
    if isinstance(value, dict):
        return {key: to(request, each) for key, each in value.items()}
    return request if value == "REQUEST" else value


@pytest.mark.proves("exec:statuses")
@settings(max_examples=300)
@given(MESSAGES)
def test_no_message_of_a_kernel_stops_the_connection(messages: list[tuple[Any, ...]]) -> None:
    async def check() -> None:
        connection, run = Connection(), listener()
        request = connection.submit({"code": "code"}, run)
        for channel, *message in messages:
            connection.receive(channel, *to(request, message))
        assert all(isinstance(state, str) for state in connection.notes.states)
        if not run.done:
            connection.receive("iopub", "status", request, {"execution_state": "idle"})
            connection.receive("shell", "execute_reply", request, {"status": "ok"})
        assert run.done
        async with asyncio.timeout(DEADLINE):
            (*_, last) = [event async for event in run.events()]
        assert isinstance(last, Execution)
        assert isinstance(last.execution_count, int | None)
        await run.close()

    logging.disable()  # each malformed message is a warning
    try:
        asyncio.run(check())
    finally:
        logging.disable(logging.NOTSET)


@pytest.mark.proves("exec:complete")
@pytest.mark.parametrize("has_reply", [True, False])
async def test_a_cell_of_a_page_ends_although_a_thread_of_it_prints_on(
    monkeypatch: pytest.MonkeyPatch, has_reply: bool
) -> None:
    monkeypatch.setattr(pages, "REPLY_IDLE_GAP", 0.1)
    monkeypatch.setattr(pages, "REPLY_IDLE_LIMIT", 0.3)
    connection, loop, printed = Connection(), asyncio.get_running_loop(), list[Any]()
    client = PageClient("kernel", connection)
    running = asyncio.create_task(client.execute_interactive("code", output_hook=printed.append))
    while not connection.has_listeners:  # noqa: ASYNC110 - in the loop's next turn
        await asyncio.sleep(0)
    (request,) = connection._listeners

    def print_on() -> None:
        connection.receive("iopub", "stream", request, {"name": "stdout", "text": "."})
        if not running.done():
            loop.call_later(0.02, print_on)

    if has_reply:
        connection.receive("shell", "execute_reply", request, {"status": "ok"})
    else:
        connection.receive("iopub", "status", request, {"execution_state": "idle"})
    print_on()
    async with asyncio.timeout(DEADLINE):
        assert (await running)["content"]["status"] == "ok"
    assert len(printed) > 1

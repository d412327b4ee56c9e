"""Resources of any size: read whole, or refused with what to do instead; never a huge message."""

from __future__ import annotations

import base64
import random
from getpass import getuser
from pathlib import Path
from typing import Any

import httpx2
import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import ErrorData, JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse
from sse_starlette.event import ensure_bytes

from tests.cases import Cases
from tests.mcp.conftest import Connect
from tk_ai_extension.mcp import resources
from tk_ai_extension.mcp.single_response import SingleResponse

LIMIT = 40_000
"""The limit in these tests; what is just below and above it is small, and quick."""
ENVELOPE = 4_000
"""Bytes of a message besides its contents."""


class Sizes:
    """The size of each response of the server."""

    def __init__(self) -> None:
        self.largest = 0

    async def __call__(self, response: httpx2.Response) -> None:
        if response.request.method == "POST":
            self.largest = max(self.largest, len(await response.aread()))


def outputs(rng: random.Random, size: int) -> list[Any]:
    """Outputs of about this size, of all kinds."""
    text = "x" * size
    picture = base64.b64encode(rng.randbytes(size * 3 // 4)).decode()
    deep: str | dict[str, Any] = text
    for _ in range(30):
        deep = {"a": [deep]}
    new = nbformat.v4.new_output
    return [
        new("stream", name="stdout", text=text),
        new("display_data", data={"image/png": picture, "text/plain": "<Figure>"}),
        new("display_data", data={"image/png": picture[:-2] + "!", "text/html": text}),
        new("error", ename="E", evalue=text, traceback=[text]),
        new("display_data", data={"application/json": [*range(size // 4)]}),
        new("display_data", data={"application/json": deep}),
        new("display_data", data={f"application/x.{n}": text[: size // 9] for n in range(9)}),
    ]


async def refusal(client: Client, uri: str) -> Any:
    """The error for a resource; None if it is read."""
    try:
        assert (await client.read_resource(uri)).contents
    except MCPError as error:
        return error.data["error"]
    return None


@pytest.mark.proves("mcp:resources", "threat:exhaustion", "mcp:errors")
async def test_a_resource_is_read_whole_or_refused_with_a_hint(
    connect: Connect, workspace: Any, jp_root_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "MAX_SIZE", LIMIT)
    rng, sizes, refused, read = random.Random(2), Sizes(), 0, 0
    async with connect(http={"event_hooks": {"response": [sizes]}}) as client:
        await client.list_tools()
        sizes.largest = 0
        with Cases() as cases:
            for size in (100, LIMIT // 2, LIMIT - 1_000, LIMIT + 1, LIMIT * 2, LIMIT * 50):
                cells = [
                    nbformat.v4.new_code_cell("y" * size, id="source00"),
                    nbformat.v4.new_code_cell("", id="outputs0", outputs=outputs(rng, size)),
                ]
                nbformat.write(nbformat.v4.new_notebook(cells=cells), jp_root_dir / "a.ipynb")
                kept = [
                    await workspace.artifacts.write(getuser(), "line\n" * (size // 5)),
                    await workspace.artifacts.write(getuser(), "\x01" * (size // 2)),
                    await workspace.artifacts.write(
                        getuser(), rng.randbytes(size), mime="image/png"
                    ),
                ]
                uris = [f"notebook://a.ipynb/cells/outputs0/outputs/{n}" for n in range(7)]
                uris += ["notebook://a.ipynb", "notebook://a.ipynb/cells/source00"]
                uris += [f"artifact://{each.id}" for each in kept]
                for uri in uris:
                    with cases.case(size, uri):
                        error = await refusal(client, uri)
                        refused, read = refused + bool(error), read + (not error)
                        if error:
                            assert error["code"] == "not_readable"
                            assert error["hint"]
                            assert size > LIMIT // 3 or uri.endswith("/2")
                        assert sizes.largest < LIMIT + ENVELOPE
    assert refused > 30
    assert read > 20


JSON = st.recursive(
    st.none()
    | st.integers()
    | st.text()
    | st.sampled_from(["method", '"method":', "\r\n", "\u2028"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just("method"), inner),
    max_leaves=5,
)
OBJECTS = st.dictionaries(st.text() | st.sampled_from(["method", "result", "id"]), JSON)
IDS = st.integers() | st.text() | st.sampled_from(['"', "\\", '","method":"', '1,"result":'])
RESPONSES = st.builds(JSONRPCResponse, jsonrpc=st.just("2.0"), id=IDS, result=OBJECTS) | st.builds(
    JSONRPCError,
    jsonrpc=st.just("2.0"),
    id=IDS,
    error=st.builds(ErrorData, code=st.integers(), message=st.text(), data=JSON),
)
OTHERS = st.builds(
    JSONRPCRequest, jsonrpc=st.just("2.0"), id=IDS, method=st.text(), params=OBJECTS
) | st.builds(JSONRPCNotification, jsonrpc=st.just("2.0"), method=st.text(), params=OBJECTS)


@pytest.mark.proves("mcp:http")
@given(message=RESPONSES | OTHERS)
async def test_a_response_is_known_by_its_beginning(message: Any) -> None:
    out: list[Any] = []

    async def send(sent: Any) -> None:
        out.append(sent)

    data = message.model_dump_json(by_alias=True, exclude_unset=True)
    answer = SingleResponse(send)
    headers = [(b"content-type", b"text/event-stream")]
    await answer({"type": "http.response.start", "status": 200, "headers": headers})
    piece = ensure_bytes({"event": "message", "data": data}, "\r\n")
    await answer({"type": "http.response.body", "body": piece, "more_body": True})
    is_response = isinstance(message, JSONRPCResponse | JSONRPCError)
    assert out[1]["body"] == (data.encode() if is_response else piece)
    assert dict(out[0]["headers"])[b"content-type"].endswith(b"json") == is_response

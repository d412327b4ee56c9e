"""Notebooks, cells, outputs and artifacts as resources; prompts about them; completion of both."""

from __future__ import annotations

import asyncio
import base64
import json
from functools import partial
from getpass import getuser
from pathlib import Path
from typing import Any

import mcp_types as types
import nbformat
import pytest
from mcp.client.subscriptions import ResourceUpdated
from mcp.shared.exceptions import MCPError

from tests.cases import Cases
from tests.mcp.conftest import LEGACY, MODERN, Connect
from tests.mcp.probes.tools import PIXEL

DEADLINE = 30
PLAN = "notebook://my%20plans/plan.ipynb"


@pytest.fixture
def plan(jp_root_dir: Path) -> Path:
    """A notebook in a folder with a blank in its name, with outputs of several kinds."""
    new = nbformat.v4
    outputs = [
        new.new_output("stream", name="stdout", text="printed\n"),
        new.new_output("display_data", data={"image/png": PIXEL, "text/plain": "<Figure>"}),
        new.new_output("error", ename="E", evalue="v", traceback=["\x1b[31mfirst\x1b[0m", "last"]),
        new.new_output("execute_result", data={"application/json": {"a": [1]}}, execution_count=1),
    ]
    cells = [
        new.new_code_cell("print('printed')", id="aaaa1111", outputs=outputs, execution_count=1),
        new.new_markdown_cell("# A heading", id="bbbb2222"),
    ]
    path = jp_root_dir / "my plans" / "plan.ipynb"
    path.parent.mkdir()
    nbformat.write(new.new_notebook(cells=cells), path)
    nbformat.write(new.new_notebook(), jp_root_dir / "empty.ipynb")
    (jp_root_dir / ".ipynb_checkpoints").mkdir()
    nbformat.write(new.new_notebook(), jp_root_dir / ".ipynb_checkpoints" / "plan.ipynb")
    return path


async def _read(client: Any, uri: str) -> list[Any]:
    return (await client.read_resource(uri)).contents


async def _subscribe(client: Any, uri: str) -> None:
    """Subscribes as sessions do; the client's own method warns that the newest protocol does not."""
    request = types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri))
    await client.session.send_request(request, types.EmptyResult)


@pytest.mark.proves("mcp:resources")
async def test_notebooks_below_the_root_are_listed(connect: Connect, plan: Path) -> None:
    async with connect() as client:
        listed = (await client.list_resources()).resources
        templates = (await client.list_resource_templates()).resource_templates
    assert {resource.uri for resource in listed} == {PLAN, "notebook://empty.ipynb"}
    assert {resource.title for resource in listed} == {"my plans/plan.ipynb", "empty.ipynb"}
    assert [template.uri_template for template in templates] == [
        "notebook://{+path}",
        "notebook://{+path}/cells/{id}",
        "notebook://{+path}/cells/{id}/outputs/{n}",
        "artifact://{id}",
    ]


@pytest.mark.proves("mcp:resources")
async def test_a_notebook_a_cell_and_an_output_are_read(connect: Connect, plan: Path) -> None:
    async with connect() as client:
        (whole,) = await _read(client, PLAN)
        assert "# A heading" in whole.text
        assert "printed" in whole.text
        (cell,) = await _read(client, f"{PLAN}/cells/aaaa1111")
        assert "print('printed')" in cell.text
        (by_index,) = await _read(client, f"{PLAN}/cells/1")
        assert "# A heading" in by_index.text
        (stream,) = await _read(client, f"{PLAN}/cells/aaaa/outputs/0")
        assert (stream.mime_type, stream.text) == ("text/plain", "printed\n")
        contents = await _read(client, f"{PLAN}/cells/aaaa/outputs/1")
        picture, text = sorted(contents, key=lambda content: content.mime_type)
        assert (picture.mime_type, base64.b64decode(picture.blob)[1:4]) == ("image/png", b"PNG")
        assert text.text == "<Figure>"
        (error,) = await _read(client, f"{PLAN}/cells/aaaa/outputs/2")
        assert error.text == "first\nlast"
        (data,) = await _read(client, f"{PLAN}/cells/aaaa/outputs/3")
        assert (data.mime_type, data.text) == ("application/json", '{"a": [1]}')


@pytest.mark.proves("mcp:resources", "out:artifact")
async def test_an_artifact_is_read_whole(connect: Connect, workspace: Any) -> None:
    artifact = await workspace.artifacts.write(getuser(), "line\n" * 5_000)
    others = await workspace.artifacts.write("somebody else", "theirs")
    async with connect() as client:
        (content,) = await _read(client, f"artifact://{artifact.id}")
        assert content.text == "line\n" * 5_000
        with pytest.raises(MCPError):
            await _read(client, f"artifact://{others.id}")


@pytest.mark.proves("mcp:resources", "rest:call", "threat:path")
async def test_a_missing_resource_is_an_error_of_the_protocol(
    connect: Connect, plan: Path, era: str
) -> None:
    expected = {types.INVALID_PARAMS} if era == MODERN else {types.INVALID_PARAMS, -32002}
    async with connect() as client:
        with Cases() as cases:
            for uri in (
                "notebook://missing.ipynb",
                "notebook://../outside.ipynb",
                "notebook://%2e%2e/outside.ipynb",
                "notebook:///etc/passwd.ipynb",
                f"{PLAN}/cells/nosuchcell",
                f"{PLAN}/cells/aaaa/outputs/99",
                "artifact://nothing",
                "file:///etc/passwd",
                "nonsense",
            ):
                with cases.case(uri):
                    with pytest.raises(MCPError) as failure:
                        await _read(client, uri)
                    assert failure.value.code in expected


@pytest.mark.parametrize("era", [LEGACY], indirect=True)
async def test_a_session_that_subscribed_is_notified_of_a_change(
    connect: Connect, plan: Path
) -> None:
    uris: asyncio.Queue[str] = asyncio.Queue()

    async def listen(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            await uris.put(message.params.uri)

    async with asyncio.timeout(DEADLINE), connect(message_handler=listen) as client:
        await _subscribe(client, PLAN)
        await client.call_tool(
            "insert_cell", {"notebook": "my plans/plan.ipynb", "source": "x = 1"}
        )
        assert await uris.get() == PLAN
        params = types.UnsubscribeRequestParams(uri=PLAN)
        await client.session.send_request(
            types.UnsubscribeRequest(params=params), types.EmptyResult
        )
        empty = "notebook://empty.ipynb"
        await _subscribe(client, empty)
        await client.call_tool("insert_cell", {"notebook": "empty.ipynb", "source": "z = 1"})
        # A change may be notified twice: what was on its way before has arrived by then.
        while await uris.get() != empty:
            pass
        await client.call_tool(
            "insert_cell", {"notebook": "my plans/plan.ipynb", "source": "y = 1"}
        )
        # The first may still be of the change before; the second is not.
        for source in ("z = 2", "z = 3"):
            await client.call_tool("insert_cell", {"notebook": "empty.ipynb", "source": source})
            assert await uris.get() == empty


@pytest.mark.proves("rest:call")
@pytest.mark.parametrize("era", [LEGACY], indirect=True)
async def test_a_subscription_that_is_refused_is_refused_again(
    connect: Connect, plan: Path
) -> None:
    async with connect() as client:
        for _ in range(2):
            with pytest.raises(MCPError):
                await _subscribe(client, "notebook://../outside.ipynb")
        await _subscribe(client, PLAN)


@pytest.mark.parametrize("era", [MODERN], indirect=True)
async def test_a_stream_that_listens_is_notified_of_a_change(connect: Connect, plan: Path) -> None:
    async with (
        asyncio.timeout(DEADLINE),
        connect() as client,
        client.listen(resource_subscriptions=[PLAN]) as stream,
    ):
        await client.call_tool(
            "insert_cell", {"notebook": "my plans/plan.ipynb", "source": "x = 1"}
        )
        event = await anext(aiter(stream))
    assert isinstance(event, ResourceUpdated)
    assert event.uri == PLAN


@pytest.mark.parametrize("era", [LEGACY], indirect=True)
async def test_a_save_by_a_person_in_jupyter_is_notified_too(
    connect: Connect, plan: Path, jp_fetch: Any
) -> None:
    notified = asyncio.Event()

    async def listen(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            notified.set()

    async with asyncio.timeout(DEADLINE), connect(message_handler=listen) as client:
        await _subscribe(client, "notebook://empty.ipynb")
        changed = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1")])
        body = json.dumps({"type": "notebook", "format": "json", "content": changed})
        await jp_fetch("api", "contents", "empty.ipynb", method="PUT", body=body)
        await notified.wait()


@pytest.mark.parametrize("era", [LEGACY], indirect=True)
async def test_a_file_that_another_program_changes_is_notified(
    connect: Connect, plan: Path
) -> None:
    updated: asyncio.Queue[str] = asyncio.Queue()

    async def listen(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            await updated.put(message.params.uri)

    empty, uri = plan.parent.parent / "empty.ipynb", "notebook://empty.ipynb"
    changed = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1")])
    async with asyncio.timeout(DEADLINE), connect(message_handler=listen) as client:
        for each in (uri, PLAN):
            await _subscribe(client, each)
        for change, expected in (
            (partial(nbformat.write, changed, plan), {PLAN}),  # in place, as many programs write
            (partial(plan.replace, empty), {uri, PLAN}),  # as careful programs write
            (empty.unlink, {uri}),
            (partial(nbformat.write, changed, empty), {uri}),
        ):
            # A change may be notified twice, once more after an interval.
            while not updated.empty():
                updated.get_nowait()
            change()
            missing = set(expected)
            while missing:
                missing.discard(await updated.get())
        assert "1" in str(await _read(client, uri))


@pytest.mark.proves("mcp:resources")
async def test_prompts_for_the_common_jobs_bring_the_notebook(connect: Connect, plan: Path) -> None:
    async with connect() as client:
        prompts = {prompt.name: prompt for prompt in (await client.list_prompts()).prompts}
        assert set(prompts) == {"explain", "fix", "clean_up", "document"}
        for name in prompts:
            got = await client.get_prompt(name, {"notebook": "my plans/plan.ipynb"})
            request, notebook = (message.content for message in got.messages)
            assert isinstance(request, types.TextContent)
            assert "the notebook `my plans/plan.ipynb`" in request.text
            assert isinstance(notebook, types.EmbeddedResource)
            assert notebook.resource.uri == PLAN
        got = await client.get_prompt(
            "fix", {"notebook": "my plans/plan.ipynb", "cell": "aaaa1111"}
        )
        request, cell = (message.content for message in got.messages)
        assert isinstance(request, types.TextContent)
        assert "cell `aaaa1111`" in request.text
        assert isinstance(cell, types.EmbeddedResource)
        assert cell.resource.uri == f"{PLAN}/cells/aaaa1111"


@pytest.mark.proves("mcp:resources", "rest:call")
async def test_a_prompt_about_nothing_is_an_error_of_the_protocol(
    connect: Connect, plan: Path
) -> None:
    async with connect() as client:
        with Cases() as cases:
            for name, arguments in (
                ("sing", {}),
                ("explain", {"notebook": "missing.ipynb"}),
                ("explain", {"notebook": "../x.ipynb"}),
            ):
                with cases.case(name, arguments), pytest.raises(MCPError):
                    await client.get_prompt(name, arguments)


async def test_notebooks_and_cells_are_completed(connect: Connect, plan: Path) -> None:
    prompt = types.PromptReference(name="explain")
    template = types.ResourceTemplateReference(uri="notebook://{+path}/cells/{id}")
    artifact = types.ResourceTemplateReference(uri="artifact://{id}")
    async with connect() as client:

        async def values(
            ref: Any, name: str, typed: str, given: dict[str, str] | None = None
        ) -> Any:
            argument = {"name": name, "value": typed}
            return (await client.complete(ref, argument, given)).completion.values

        assert await values(prompt, "notebook", "em") == ["empty.ipynb"]
        assert await values(prompt, "notebook", "PLAN") == ["my plans/plan.ipynb"]
        assert set(await values(template, "path", "")) == {"my plans/plan.ipynb", "empty.ipynb"}
        given = {"notebook": "my plans/plan.ipynb"}
        assert await values(prompt, "cell", "", given) == ["aaaa", "bbbb"]
        assert await values(template, "id", "b", {"path": "my plans/plan.ipynb"}) == ["bbbb"]
        assert await values(artifact, "id", "a") == []

"""Clients that do not read what they asked for, and those that ask for too much at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from getpass import getuser
from typing import Any

import pytest

from tk_ai_extension.server.handlers import streaming, tools


@pytest.fixture
async def stalled(
    jp_auth_header: dict[str, str], jp_base_url: str, jp_http_port: int
) -> AsyncIterator[Any]:
    """Asks for a stream, and reads no more of it than that it begins; the headers of a request."""
    opened: list[asyncio.StreamWriter] = []

    async def open_(path: str) -> dict[str, str]:
        reader, writer = await asyncio.open_connection("127.0.0.1", jp_http_port, limit=1_000)
        opened.append(writer)
        lines = [f"GET {jp_base_url}{path} HTTP/1.1", "Host: localhost"]
        lines += [f"{name}: {value}" for name, value in jp_auth_header.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        await reader.readuntil(b"\r\n")
        return jp_auth_header

    yield open_
    for writer in opened:
        writer.close()


@pytest.mark.proves("threat:exhaustion")
async def test_a_stalled_download_of_an_artifact_is_ended(
    stalled: Any, extension: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = asyncio.Event()
    monkeypatch.setattr(streaming, "STALLED", 0.3)
    monkeypatch.setattr(tools.ArtifactHandler, "on_finish", lambda _: ended.set())
    kept = await extension.workspace.artifacts.write(getuser(), "x" * 30_000_000)
    await stalled(f"api/tk-ai/artifacts/{kept.id}")
    async with asyncio.timeout(10):
        await ended.wait()

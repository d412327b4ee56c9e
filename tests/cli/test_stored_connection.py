"""`nb` uses the connection that was entered in the panel, by the same provider code."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Nb
from tests.support.scripted_model import KEY, MODEL, Answer, ScriptedModel
from tk_ai_extension.agent.claude.connections import FILE, ConnectionStore
from tk_ai_extension.agent.claude.providers import KEYS, Connection


def store(nb: Nb, url: str) -> ConnectionStore:
    """What the panel has stored for the user of the command."""
    folder = Path(nb.environment["JUPYTER_CONFIG_DIR"], "tk-ai-extension")
    found = ConnectionStore(folder / FILE)
    found.save(Connection("compatible", KEY, KEYS[0], url, MODEL))
    return found


def model_of(nb: Nb) -> dict[str, Any]:
    looks = nb("doctor", "--json").json["looks"]
    return next(look for look in looks if look["name"] == "model")


@pytest.mark.proves("connect:form", "connect:address", "threat:secrets")
async def test_doctor_and_chat_find_the_connection_of_the_panel(nb: Nb) -> None:
    nb.notebook("a.ipynb", "6 * 7")
    before = await asyncio.to_thread(model_of, nb)
    assert not before["ok"]
    assert "tour" in before["detail"]
    async with ScriptedModel(Answer.of("It is 42.")).running() as model:
        stored = store(nb, model.url)
        alone = await asyncio.to_thread(model_of, nb)
        assert alone["ok"]
        assert alone["detail"].endswith("by the key of the panel")
        answer = await asyncio.to_thread(nb, "chat", "-n", "a.ipynb", "What is six by seven?")
        assert answer.out == "It is 42.\n"
        assert {request.headers["X-Api-Key"] for request in model.requests} == {KEY}
        # With the project's server, too.
        assert await asyncio.to_thread(model_of, nb) == alone
        assert KEY not in answer.out + answer.err + str(alone)
    nb.environment["ANTHROPIC_API_KEY"] = "another-key-0123456789"
    named = await asyncio.to_thread(model_of, nb)
    assert named["detail"].endswith("by the key of the environment")
    stored.delete()

"""No secret of an agent's environment reaches the chat, its transcript or the log by an error."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from pathlib import Path

import pytest

from tests.agent.acp.conftest import OpenAcp
from tests.agent.conftest import of_kind
from tk_ai_extension.agent.launch_settings import redacted, secrets_of

LEAKING = Path(__file__).with_name("leaking_agent.py")
SECRETS = {
    "OWN_KEY": "canary-0123",
    "HTTPS_PROXY": "http://bob:canary%40pw@127.0.0.1:9",
    "OWN_HEADERS": "x-version: 1\nAuthorization: Bearer canary-token",
}
PROMPT = "session/prompt"


@pytest.mark.proves("ext:any-agent", "threat:secrets")
@pytest.mark.parametrize(
    ("method", "how"),
    [
        *(("initialize", "error"), ("session/new", "data"), ("authenticate", "words")),
        *(("session/set_mode", "malformed"), ("session/set_model", "error"), (PROMPT, "error")),
        *((PROMPT, "data"), (PROMPT, "words"), (PROMPT, "malformed"), (PROMPT, "update")),
    ],
)
async def test_an_agent_that_repeats_its_secrets_in_an_error(
    open_acp: OpenAcp, tmp_path: Path, caplog: pytest.LogCaptureFixture, method: str, how: str
) -> None:
    caplog.set_level(logging.DEBUG)
    agent = {
        "command": [sys.executable, str(LEAKING), method, how],
        "title": "Leaking",
        "variables": ["OWN_*"],
        "logins": {"key": ["OWN_KEY"]},
    }
    acp = open_acp(agents={"leaking": agent}, environment={**os.environ, **SECRETS})
    events = await acp.say("Hello.", model="leaking:b")
    await acp.close()
    for error in of_kind(events, "error"):
        assert error["error"]["code"] in (
            "agent_unavailable",
            "agent_died",
            "model_failed",
            "no_model",
        )
        # Nor is the advice about another agent.
        hint = error["error"]["hint"].lower()
        assert not {"claude", "anthropic"} & set(re.findall("[a-z]+", hint))
    stored = b"".join(file.read_bytes() for file in (tmp_path / "chats").glob("*.sqlite*"))
    shown = json.dumps([event.data for event in events])
    for place in (shown, stored.decode("utf-8", "replace"), caplog.text):
        assert "canary" not in place


@pytest.mark.proves("threat:secrets")
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("ANTHROPIC_CUSTOM_HEADERS", "x-a: 1\nx-key: canary-1", "the key canary-1 is invalid"),
        ("ANTHROPIC_CUSTOM_HEADERS", "Authorization: Bearer canary-1", "canary-1"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=b,api-key=canary%201", "canary 1"),
        ("GOOGLE_PRIVATE_KEY", "-----BEGIN\ncanary-line\n", "at canary-line"),
        ("OWN_KEY", "canary-1\n", "canary-1"),
        ("OWN_KEY", 'canary"1', json.dumps({"key": 'canary"1'})),
        ("DATABASE", "postgresql://bob:canary@host/db", "password canary"),
        ("HTTPS_PROXY", "http://bob:can%40ary@host:1", "the password can@ary"),
        ("HTTPS_PROXY", "bob:canary@host:1", "canary"),
    ],
)
def test_a_part_of_a_variable_is_a_secret(name: str, value: str, said: str) -> None:
    shown = redacted(said, secrets_of({name: value, "PATH": "/usr/bin"}))
    assert "canary" not in shown
    assert "can@ary" not in shown

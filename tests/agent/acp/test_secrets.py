"""No secret of an agent's environment reaches the chat, its transcript or the log by an error."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.agent.acp.conftest import OpenAcp
from tests.agent.conftest import of_kind
from tk_ai_extension.agent.environment import redacted, secrets_of

LEAKING = Path(__file__).with_name("leaking_agent.py")
SECRETS = {
    "OWN_KEY": "canary-0123",
    "HTTPS_PROXY": "http://bob:canary%40pw@127.0.0.1:9",
    "OWN_HEADERS": "x-version: 1\nAuthorization: Bearer canary-token",
}
METHODS = ("initialize", "session/new", "authenticate", "session/set_mode", "session/set_model")


@pytest.mark.proves("ext:any-agent", "threat:secrets")
@pytest.mark.parametrize("how", ["error", "data", "words", "malformed", "update"])
@pytest.mark.parametrize("method", [*METHODS, "session/prompt"])
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


TEXT = st.text(st.characters(min_codepoint=33, max_codepoint=382), min_size=4, max_size=12)


@pytest.mark.proves("threat:secrets")
@given(user=TEXT, password=TEXT, encoded=st.booleans())
def test_the_user_information_of_an_address_is_a_secret(
    user: str, password: str, *, encoded: bool
) -> None:
    user = quote(user, safe="")
    # Without encoding, an address cannot have a space, and a percent sign begins an encoding.
    plain = password if encoded else re.sub(r"[\s%]", "_", password)
    written = quote(password, safe="") if encoded else plain
    address = f"http://{user}:{written}@proxy.example:1"
    assume(plain not in f"http://{user}:@proxy.example:1")
    secrets = secrets_of({"https_proxy": address})
    for said in (address, f"of {plain}.", quote(plain, safe=""), json.dumps({"a": address})):
        shown = redacted(said, secrets)
        assert "[secret]" in shown
        assert plain not in shown.replace("[secret]", "")
    # Also without a scheme.
    assert plain not in redacted(plain, secrets_of({"HTTPS_PROXY": f"{user}:{written}@proxy:1"}))


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
        ("HTTPS_PROXY", "http://bob:can/ary@host:1", "http://bob:can/ary@host:1"),
    ],
)
def test_a_part_of_a_variable_is_a_secret(name: str, value: str, said: str) -> None:
    shown = redacted(said, secrets_of({name: value, "PATH": "/usr/bin"}))
    assert "canary" not in shown
    assert "can/ary" not in shown

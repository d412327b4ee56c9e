"""The scripted agent, which asks for permissions that are given as the protocol has them.

``ask [{"updates": [...], "toolCall": {...}}, ...]`` sends the updates of each call, and asks for it; it
responds with the ids of the chosen options.

``command {"fifo": "/path", ...}`` runs a command of its own that ends when a line is written to the FIFO.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tests.support import acp_agent

Json = dict[str, Any]


class AskingAgent(acp_agent.Agent):
    """Asks for permissions."""

    def do_ask(self, session: str, rest: str, _blocks: list[Json]) -> None:
        """Ask for a list of permissions."""
        chosen: list[str | None] = []
        for number, each in enumerate(json.loads(rest)):
            call = f"asked-{number}"
            for update in each.get("updates", ()):
                fields = {"title": "A tool", **update}
                self.update(session, "tool_call_update", toolCallId=call, **fields)
            given: Json = {"title": None, **each["toolCall"]}
            raw = given.pop("rawInput", None)
            answer = self.ask(session, call, given.pop("kind", None), raw, **given)
            chosen.append(answer["result"]["outcome"].get("optionId"))
        self.say(session, json.dumps(chosen))

    def do_command(self, session: str, rest: str, _blocks: list[Json]) -> None:
        """Report a command, and say nothing while it runs."""
        given, raw = json.loads(rest), {"command": "make"}
        report: Json = {"toolCallId": "command", "title": "make", "kind": "execute"}
        self.update(session, "tool_call", status="pending", rawInput=raw, **report)
        if given.get("asks"):
            self.ask(session, "command", "execute", raw, title="make")
        if given.get("begins"):
            self.update(session, "tool_call_update", toolCallId="command", status="in_progress")
        if given.get("says"):
            self.say(session, "It takes long.")
        self.wait_for(given["fifo"])
        if given.get("dies"):
            os._exit(3)
        self.update(session, "tool_call_update", toolCallId="command", status="completed")
        if given.get("hangs"):
            self.wait_for(given["fifo"])
        self.say(session, "Built.")

    def wait_for(self, fifo: str) -> None:
        """Wait until a line is written to a FIFO."""
        with Path(fifo).open() as lines:
            lines.readline()


if __name__ == "__main__":
    acp_agent.Agent = AskingAgent
    acp_agent.main()

"""The scripted agent, which asks for permissions that are given as the protocol has them.

``ask [{"updates": [...], "toolCall": {...}, "writes": [...]}, ...]`` sends the updates of each call, asks
for it, and writes files through the client; it responds with the ids of the chosen options.
"""

from __future__ import annotations

import json
from typing import Any

from tk_ai_extension.testing import acp_agent

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
            for write in each.get("writes", ()):
                self.request("fs/write_text_file", {"sessionId": session, **write})
        self.say(session, json.dumps(chosen))


if __name__ == "__main__":
    acp_agent.Agent = AskingAgent
    acp_agent.main()

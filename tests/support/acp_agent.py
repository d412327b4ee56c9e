"""A scripted agent with the Agent Client Protocol, for tests: a program of the standard library.

Run it as a file. It echoes messages, and does what they name:

- ``call TOOL {…}``: reports a call of a tool of its MCP server, makes it, and responds with the result;
- ``quiet TOOL {…}``: the same without a report;
- ``own KIND {…}``: asks for permission of a built-in action, and responds with the outcome;
- ``edit PATH TEXT``: asks for the edit of a file, and writes it;
- ``write PATH OLD NEW``: edits a file, and reports it without having asked;
- ``plan``, ``picture``, ``env``, ``server``, ``recall``: a plan; the number of pictures; the names of
  its variables; its MCP server; the messages of its session;
- ``ask {…}``: asks for the permission of a call as the protocol has it;
- ``elicit {…}``: asks the person by the protocol's request; ``recall`` has the response;
- ``command {"fifo": "/path", ...}``: runs a command that ends when a line is written to the FIFO;
- faults: ``wait``, ``die``, ``garbage``, ``flood``, ``late`` (asks after the end of the turn), ``child``
  (leaves a process behind and waits).

``--settings`` has settings (a mode, a model, an effort) and a command ``/shout``, which it reports.

``--no-start`` never answers, ``--no-load`` cannot resume, ``--no-images`` accepts no images, and
``--login`` requires a login.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

Json = dict[str, Any]

_numbers = itertools.count(1)
_lock = threading.Lock()


def send(*messages: Json) -> None:
    """Send messages to the client, at once."""
    lines = [json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages]
    write(b"".join(lines))


def update_of(session: str, update: str, **fields: Any) -> Json:
    """Return the message of an update."""
    params = {"sessionId": session, "update": {"sessionUpdate": update, **fields}}
    return {"method": "session/update", "params": params}


def text_of(session: str, text: str) -> Json:
    """Return the message of a text."""
    return update_of(session, "agent_message_chunk", content={"type": "text", "text": text})


def write(data: bytes) -> None:
    """Write bytes to the output."""
    with _lock:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


class McpClient:
    """A client of the MCP server that the client has named."""

    def __init__(self, server: Json) -> None:
        environment = os.environ | {each["name"]: each["value"] for each in server["env"]}
        self.process = subprocess.Popen(
            [server["command"], *server["args"]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        info = {"name": "scripted", "version": "1"}
        self.request(
            "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}
        )
        self._send({"method": "notifications/initialized"})

    def request(self, method: str, params: Json) -> Json:
        """Send a request and return the result."""
        number = next(_numbers)
        self._send({"id": number, "method": method, "params": params})
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("id") == number and "method" not in message:
                return message.get("result") or {"error": message["error"]}
        return {"error": "The tools are gone."}

    def _send(self, message: Json) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()


class Agent:
    """The agent."""

    def __init__(self) -> None:
        self.answers: dict[Any, Any] = {}
        self.answered = threading.Condition()
        self.cancelled = threading.Event()
        self.sessions: dict[str, Json] = {}
        self.mcp: dict[str, McpClient] = {}
        self.chosen = {name: values[0] for name, (_, values) in SETTINGS.items()}
        self.logged_in = "--login" not in sys.argv

    def handle(self, message: Json) -> None:
        """Handle a message of the client."""
        method = message.get("method")
        if method is None:
            with self.answered:
                self.answers[message["id"]] = message
                self.answered.notify_all()
        elif method == "session/cancel":
            self.cancelled.set()
        elif method == "session/prompt":
            self.cancelled.clear()
            threading.Thread(target=self.prompt, args=(message,), daemon=True).start()
        elif "id" in message:
            send({"id": message["id"], **self.answer(method, message["params"])})

    def answer(self, method: str, params: Json) -> Json:  # noqa: C901 (a kind each)
        """Return the response to a request."""
        match method:
            case "initialize":
                capabilities = {
                    "loadSession": "--no-load" not in sys.argv,
                    "promptCapabilities": {"image": "--no-images" not in sys.argv},
                }
                methods = [{"id": "api-key", "name": "A key"}]
                return {
                    "result": {
                        "protocolVersion": 1,
                        "agentCapabilities": capabilities,
                        "authMethods": methods,
                    }
                }
            case "authenticate":
                self.logged_in = True
                return {"result": {}}
            case "session/new" | "session/load" if not self.logged_in:
                return {"error": {"code": -32000, "message": "Authentication required"}}
            case "session/new":
                session = os.urandom(6).hex()
                self.open(session, params, [])
                if "--settings" not in sys.argv:
                    return {"result": {"sessionId": session, "modes": MODES}}
                commands = [{"name": "shout", "description": "Say it louder"}]
                self.update(session, "available_commands_update", availableCommands=commands)
                return {"result": {"sessionId": session, "configOptions": self.settings()}}
            case "session/set_config_option":
                self.chosen[params["configId"]] = params["value"]
                return {"result": {"configOptions": self.settings()}}
            case "session/load":
                session = params["sessionId"]
                try:
                    said = json.loads(Path(f"{session}.json").read_text())
                except OSError:
                    return {"error": {"code": -32602, "message": "no such session"}}
                self.open(session, params, said)
                for each in said:
                    self.say(session, f"(again: {each})")
                return {"result": {"modes": MODES}}
            case "session/set_mode":
                self.sessions[params["sessionId"]]["mode"] = params["modeId"]
                return {"result": {}}
            case _:
                return {"error": {"code": -32601, "message": f"no {method}"}}

    def settings(self) -> list[Json]:
        """Return its settings."""
        return [
            {
                "id": name,
                "name": name.title(),
                "category": category,
                "type": "select",
                "currentValue": self.chosen[name],
                "options": [{"value": each, "name": each.title()} for each in values],
            }
            for name, (category, values) in SETTINGS.items()
        ]

    def open(self, session: str, params: Json, said: list[str]) -> None:
        """Open a session."""
        [server] = params["mcpServers"]
        self.sessions[session] = {"server": server, "said": said, "mode": "auto"}

    def request(self, method: str, params: Json) -> Json:
        """Send a request to the client and return its response."""
        number = f"agent-{next(_numbers)}"
        send({"id": number, "method": method, "params": params})
        with self.answered:
            self.answered.wait_for(lambda: number in self.answers)
            return self.answers.pop(number)

    def update(self, session: str, update: str, **fields: Any) -> None:
        """Send an update."""
        send(update_of(session, update, **fields))

    def say(self, session: str, text: str) -> None:
        """Send a text."""
        send(text_of(session, text))

    def prompt(self, message: Json) -> None:
        """Answer a prompt."""
        session, blocks = message["params"]["sessionId"], message["params"]["prompt"]
        kept = self.sessions[session]
        text = blocks[-1]["text"]
        kept["said"].append(text)
        Path(f"{session}.json").write_text(json.dumps(kept["said"]))
        word, _, rest = text.partition(" ")
        ending: Json = {"result": {"stopReason": "end_turn", "usage": USAGE}}
        if word == "/shout":
            self.say(session, f"{rest.upper()} {len(blocks)}")
        act = getattr(self, f"do_{word}", None)
        if act is None:
            self.say(session, text)
        else:
            ending = act(session, rest, blocks) or ending
        if self.cancelled.is_set():
            ending = {"result": {"stopReason": "cancelled"}}
        # The text arrives with the end of the turn, before the next turn begins.
        late = [text_of(session, "Too late.")] if word == "late" else []
        send({"id": message["id"], **ending}, *late)
        if late:
            asked = self.ask(session, "late", "execute", {"command": "true"})
            written = Path("late.tmp")
            written.write_text(json.dumps(asked))
            written.rename("late.json")

    def ask(
        self, session: str, call: str, kind: str | None, raw: Json | None, **fields: Any
    ) -> Json:
        """Ask for a permission."""
        options = [
            {"optionId": "always", "name": "Always", "kind": "allow_always"},
            {"optionId": "once", "name": "Once", "kind": "allow_once"},
            {"optionId": "no", "name": "No", "kind": "reject_once"},
        ]
        tool_call = {"toolCallId": call, "title": f"{kind} it", "kind": kind, "rawInput": raw}
        params = {"sessionId": session, "toolCall": tool_call | fields, "options": options}
        return self.request("session/request_permission", params)

    def do_call(self, session: str, rest: str, _blocks: list[Json]) -> None:
        """Call a tool, and report it."""
        tool, _, given = rest.partition(" ")
        call = f"call-{next(_numbers)}"
        self.update(
            session, "tool_call", toolCallId=call, title=f"mcp__tk__{tool}", kind="other",
            status="pending", rawInput=json.loads(given),
        )  # fmt: skip
        asked = self.ask(session, call, "other", json.loads(given), title=f"mcp__tk__{tool}")
        self.say(session, self.tool(session, tool, given) + "\n")
        self.update(session, "tool_call_update", toolCallId=call, status="completed")
        self.say(session, json.dumps(asked["result"]["outcome"]))

    def do_quiet(self, session: str, rest: str, _blocks: list[Json]) -> None:
        """Call a tool without a report."""
        tool, _, given = rest.partition(" ")
        self.say(session, self.tool(session, tool, given))

    def tool(self, session: str, tool: str, given: str) -> str:
        """Call a tool and return its text."""
        if session not in self.mcp:
            self.mcp[session] = McpClient(self.sessions[session]["server"])
        result = self.mcp[session].request(
            "tools/call", {"name": tool, "arguments": json.loads(given)}
        )
        text: str = "\n".join(each.get("text", "") for each in result.get("content", ()))
        return text

    def do_own(self, session: str, rest: str, _blocks: list[Json]) -> None:
        """Ask for a built-in action."""
        kind, _, given = rest.partition(" ")
        call = f"own-{next(_numbers)}"
        raw = json.loads(given)
        locations = [{"path": str(Path(raw["path"]).absolute())}] if "path" in raw else []
        answer = self.ask(session, call, kind, raw, locations=locations)
        ok = answer["result"]["outcome"].get("optionId") == "once"
        content = [{"type": "content", "content": {"type": "text", "text": "output"}}]
        self.update(
            session, "tool_call_update", toolCallId=call, content=content,
            status="completed" if ok else "failed",
        )  # fmt: skip
        self.say(session, json.dumps(answer["result"]["outcome"], sort_keys=True))

    def do_edit(self, session: str, rest: str, _blocks: list[Json]) -> None:
        """Ask for an edit of a file, then write it."""
        path, _, text = rest.partition(" ")
        call = f"edit-{next(_numbers)}"
        diff = {"type": "diff", "path": path, "oldText": None, "newText": text}
        answer = self.ask(session, call, "edit", {"path": path}, content=[diff])
        ok = answer["result"]["outcome"].get("optionId") == "once"
        if ok:
            Path(path).write_text(text)
        status = "completed" if ok else "failed"
        self.update(session, "tool_call_update", toolCallId=call, status=status)
        self.say(session, json.dumps(answer["result"]["outcome"], sort_keys=True))

    def do_write(self, session: str, rest: str, _blocks: list[Json]) -> None:
        """Edit a file, and report it."""
        path, old, new = rest.split()
        file = Path(path)
        file.write_text(file.read_text().replace(old, new))
        diff = {"type": "diff", "path": path, "oldText": old, "newText": new}
        self.update(
            session, "tool_call", toolCallId=f"write-{next(_numbers)}", title="Write", kind="edit",
            status="completed", content=[diff], rawInput={"path": path},
        )  # fmt: skip

    def do_plan(self, session: str, _rest: str, _blocks: list[Json]) -> None:
        """Send a plan."""
        entries = [
            {"content": "Look", "priority": "high", "status": "completed"},
            {"content": "Act", "priority": "low", "status": "pending"},
        ]
        self.update(session, "plan", entries=entries)
        self.update(session, "a_kind_of_tomorrow", entries=[])
        self.say(session, "Planned.")

    def do_settings(self, session: str, _rest: str, _blocks: list[Json]) -> None:
        """Name what its settings are, and offer another command."""
        commands = [{"name": "whisper", "description": "Say it", "input": {"hint": "what"}}]
        self.update(session, "available_commands_update", availableCommands=commands)
        self.say(session, json.dumps(self.chosen))

    def do_picture(self, session: str, _rest: str, blocks: list[Json]) -> None:
        """Count the pictures of the message."""
        self.say(session, str(sum(block["type"] == "image" for block in blocks)))

    def do_env(self, session: str, _rest: str, _blocks: list[Json]) -> None:
        """Name its variables, its mode and its folder."""
        mode = self.sessions[session]["mode"]
        names = {"variables": sorted(os.environ), "mode": mode, "folder": str(Path.cwd())}
        self.say(session, json.dumps(names))

    def do_server(self, session: str, _rest: str, _blocks: list[Json]) -> None:
        """Name its MCP server."""
        self.say(session, json.dumps(self.sessions[session]["server"]))

    def do_recall(self, session: str, _rest: str, blocks: list[Json]) -> None:
        """Recall the messages, and what came before the last one."""
        self.say(session, json.dumps(self.sessions[session]["said"][:-1]))
        self.say(session, f" {sum('<instructions>' in str(block) for block in blocks)}")

    def do_ask(self, session: str, rest: str, _blocks: list[Json]) -> None:
        """Ask for the permission of a call by the protocol's request."""
        given: Json = {"title": None, **json.loads(rest)}
        raw = given.pop("rawInput", None)
        self.ask(session, "asked", given.pop("kind", None), raw, **given)

    def do_elicit(self, session: str, rest: str, _blocks: list[Json]) -> None:
        """Ask the person by the protocol's request."""
        given = {"sessionId": session, **json.loads(rest)}
        if "toolCallId" in given:
            self.update(
                session, "tool_call", toolCallId=given["toolCallId"], title="Survey", rawInput={}
            )
        self.sessions[session]["said"].append(self.request("elicitation/create", given)["result"])

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

    def do_wait(self, session: str, _rest: str, _blocks: list[Json]) -> None:
        """Wait until it is cancelled."""
        self.say(session, "Waiting.")
        self.cancelled.wait()

    def do_child(self, session: str, _rest: str, _blocks: list[Json]) -> None:
        """Leave a process behind in a new session, and wait."""
        child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        self.say(session, f"{os.getpid()} {child.pid}")
        self.cancelled.wait()

    def do_die(self, _session: str, _rest: str, _blocks: list[Json]) -> None:
        """End at once."""
        sys.stderr.write("the last words\n")
        sys.stderr.flush()
        os._exit(3)

    def do_garbage(self, _session: str, _rest: str, _blocks: list[Json]) -> None:
        """Send an invalid message."""
        write(b'{"jsonrpc": "2.0", "metho\n')
        threading.Event().wait()

    def do_flood(self, session: str, _rest: str, _blocks: list[Json]) -> None:
        """Send text without end."""
        while True:
            self.say(session, "x" * 100_000)


MODES = {
    "currentModeId": "auto",
    "availableModes": [{"id": "auto", "name": "Auto"}, {"id": "default", "name": "Ask"}],
}
SETTINGS = {
    "mode": ("mode", ["auto", "default"]),
    "model": ("model", ["small", "large"]),
    "effort": ("thought_level", ["low", "high"]),
}
USAGE = {"totalTokens": 12, "inputTokens": 10, "outputTokens": 2}


def main() -> None:
    """Handle the messages of the client."""
    agent = Agent()
    for line in sys.stdin.buffer:
        if "--no-start" not in sys.argv:
            agent.handle(json.loads(line))


if __name__ == "__main__":
    main()

"""An agent that repeats its variables where it fails: ``METHOD HOW``.

HOW is ``error`` (in the message), ``data`` (next to it), ``words`` (on stderr, and it ends), ``malformed``
(a result of another form), or ``update`` (a notification of another form, and an error).
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

METHOD, HOW = sys.argv[1:3]
NAMES = ("OWN_KEY", "HTTPS_PROXY", "OWN_HEADERS")
RESULTS: dict[str, Any] = {
    "initialize": {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": [{"id": "key"}]},
    "session/new": {
        "sessionId": "s",
        "modes": {"currentModeId": "auto", "availableModes": [{"id": "ask"}]},
        "models": {"currentModelId": "a", "availableModels": [{"modelId": "a"}, {"modelId": "b"}]},
    },
}


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def fail(number: object) -> None:
    said = " and ".join(os.environ.get(name, "") for name in NAMES)
    match HOW:
        case "error":
            send(id=number, error={"code": -32603, "message": f"invalid: {said}"})
        case "data":
            send(id=number, error={"code": -32603, "message": "invalid", "data": {"details": said}})
        case "words":
            sys.exit(said)
        case "malformed":
            wrong = {"authMethods": 5, "modes": {"availableModes": 5}, "protocolVersion": 1}
            send(id=number, result={**wrong, "models": {"availableModels": [[said]]}})
        case _:
            update = {"sessionUpdate": "plan", "entries": [{"content": said}], "toolCallId": [said]}
            send(method="session/update", params={"sessionId": "s", "update": update})
            send(method="session/request_permission", params={"options": said})
            send(id="r", method="fs/read_text_file", params={"path": [said]})
            send(id=number, error={"code": -32603, "message": f"invalid: {said}"})


def main() -> None:
    logged_in = METHOD != "authenticate"
    for line in sys.stdin:
        message = json.loads(line)
        if "method" not in message or "id" not in message:
            continue
        if message["method"] == METHOD:
            fail(message["id"])
        elif message["method"] == "session/new" and not logged_in:
            send(id=message["id"], error={"code": -32000, "message": "Log in."})
        else:
            send(id=message["id"], result=RESULTS.get(message["method"], {}))


main()

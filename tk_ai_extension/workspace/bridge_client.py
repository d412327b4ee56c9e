"""The module `tool_bridge` of a `python` kernel (Python 3.8 or later): its surroundings, and the tools.

    import tool_bridge
    tool_bridge.call("read_cell", notebook="a.ipynb", cell=0)["source"]

It imports nothing but the standard library. Its text is sent to the kernel; nothing here is imported
by this package.
"""
# pyright: basic, reportAttributeAccessIssue=false

import json
import os
import socket
import sys


class ToolError(Exception):
    """A tool refused the call, or failed; `code` and `hint` as every face of the tools has them."""

    def __init__(self, message, code="", hint="", details=None):
        super().__init__(message)
        self.code, self.hint, self.details = code, hint, details or {}


def call(tool, **arguments):
    """Calls a tool for whoever runs this code; answers with its structured reading (a dict).

    Raises:
        ToolError: it was refused, or failed.
    """
    url = os.environ.get("PI_TOOL_BRIDGE_URL", "")
    if not url.startswith("unix://"):
        raise ToolError(
            "There is no bridge here: PI_TOOL_BRIDGE_URL is not set. Code in a sandbox does not call "
            "the tools, which work outside of it; nor does code behind a gateway.",
            code="permission_denied",
            hint="Have whoever runs this code call the tool.",
        )
    asked = {
        "token": os.environ.get("PI_TOOL_BRIDGE_TOKEN", ""),
        "session": os.environ.get("PI_TOOL_BRIDGE_SESSION", ""),
        "tool": tool,
        "arguments": arguments,
    }
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(url[len("unix://") :])
        line.sendall(json.dumps(asked).encode() + b"\n")
        with line.makefile("rb") as answers:
            answer = answers.readline()
    if not answer:
        raise ToolError("The bridge closed without an answer.")
    found = json.loads(answer)
    if "error" in found:
        error = found["error"]
        raise ToolError(error["message"], error["code"], error["hint"], error.get("details"))
    return found["result"]


class Surroundings:
    """The folder, variables and path of what runs in this kernel; made when it begins."""

    def __init__(self):
        os.environ.pop("JPY_SESSION_NAME", None)  # it names a notebook, and here is none
        self._home = os.getcwd()  # noqa: PTH109 - what os.chdir takes
        self._before = {}  # the value that a variable had before it was set here, or None

    def enter(self, text):
        """Sets them for what runs next; `text` is the variables as JSON."""
        for name, before in self._before.items():
            if before is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = before
        self._before.clear()
        for name, value in json.loads(text).items():
            self._before[name] = os.environ.get(name)
            os.environ[name] = value
        os.chdir(self._home)
        if self._home not in sys.path:
            sys.path.insert(0, self._home)

"""The module `tool_bridge` of a `python` kernel (Python 3.8 or later): call tools from code.

    import tool_bridge
    tool_bridge.call("read_cell", notebook="a.ipynb", cell=0)["source"]

It imports only the standard library. Its source is sent to the kernel; this package does not import it.
"""
# pyrefly: ignore-errors[implicit-any, unannotated-return, unknown-argument-type, unknown-variable-type]

import json
import os
import socket
import sys


class ToolError(Exception):
    """A tool refused the call or failed. `code` and `hint` are those of every interface."""

    def __init__(self, message, code="", hint="", details=None):
        super().__init__(message)
        self.code, self.hint, self.details = code, hint, details or {}


def call(tool, **arguments):
    """Call a tool for the caller of this code; return its structured result (a dict).

    Raises:
        ToolError: The tool refused the call or failed.
    """
    url = os.environ.get("PI_TOOL_BRIDGE_URL", "")
    if not url.startswith("unix://"):
        raise ToolError(
            "There is no bridge here: PI_TOOL_BRIDGE_URL is not set. Code in a sandbox or behind a "
            "gateway cannot call tools.",
            code="permission_denied",
            hint="Call the tool yourself instead of from code.",
        )
    request = {
        "token": os.environ.get("PI_TOOL_BRIDGE_TOKEN", ""),
        "tool": tool,
        "arguments": arguments,
    }
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(url[len("unix://") :])
        connection.sendall(json.dumps(request).encode() + b"\n")
        with connection.makefile("rb") as answers:
            answer = answers.readline()
    if not answer:
        raise ToolError("The bridge closed without an answer.")
    found = json.loads(answer)
    if "error" in found:
        error = found["error"]
        raise ToolError(error["message"], error["code"], error["hint"], error.get("details"))
    return found["result"]


_home = os.getcwd()  # noqa: PTH109 - os.chdir takes it


def enter(text):
    """Set the working directory, `sys.path` and variables (in JSON) for the next code of this kernel."""
    os.environ.pop("JPY_SESSION_NAME", None)  # This kernel does not belong to a notebook.
    os.environ.update(json.loads(text))
    os.chdir(_home)
    if _home not in sys.path:
        sys.path.insert(0, _home)

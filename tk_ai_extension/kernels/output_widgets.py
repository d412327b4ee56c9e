"""Output widgets of ipywidgets: output that a widget captures does not belong to the cell.

A capturing widget has the id of a request as its ``msg_id``. Until the id is cleared, the request's
outputs belong to the widget, as in JupyterLab and nbclient; if widgets are nested, to the innermost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from tk_ai_extension.kernels.collector import OUTPUT_MESSAGES, OutputCollector
from tk_ai_extension.model.json_values import Json


class OutputWidgets:
    """The Output widgets of one incarnation of a kernel that have captured output."""

    def __init__(self) -> None:
        # By request, the widgets that capture it, innermost last.
        self._capturing: dict[str, list[str]] = {}
        self._outputs: dict[str, OutputCollector] = {}
        # By request, the widgets whose outputs were not sent to the kernel yet.
        self._changed: dict[str, set[str]] = {}

    def captures(self, request: str, kind: str, content: Mapping[str, Any]) -> bool:
        """Process an iopub message; return whether it belongs to a widget and not to the cell.

        Args:
            request: The id of the message's parent.
            kind: The message's type.
            content: Its content.
        """
        if kind in ("comm_open", "comm_msg"):
            self._set_state(content)
            return False
        widgets = self._capturing.get(request)
        if not widgets or kind not in OUTPUT_MESSAGES:
            return False
        self._outputs.setdefault(widgets[-1], OutputCollector()).add(kind, content)
        self._changed.setdefault(request, set()).add(widgets[-1])
        return True

    def ended(self, request: str) -> list[Json]:
        """End a request; return what widgets captured of it, as contents of ``comm_msg``.

        Sent to the kernel, they update its widgets as a front end does.
        """
        self._capturing.pop(request, None)
        changed = self._changed.pop(request, ())
        return [
            {
                "comm_id": widget,
                "data": {
                    "method": "update",
                    "state": {"outputs": list(self._outputs[widget].outputs)},
                    "buffer_paths": [],
                },
            }
            for widget in sorted(changed)
        ]

    def _set_state(self, content: Mapping[str, Any]) -> None:
        widget = str(content.get("comm_id"))
        data: Any = content.get("data")
        state: Any = cast("Json", data).get("state") if isinstance(data, dict) else None
        if not isinstance(state, dict):
            return
        known = cast("Json", state)
        if "outputs" in known:
            # The code sets the outputs itself; captured output is appended to them.
            self._outputs[widget] = _collector(known["outputs"])
        if "msg_id" not in known:
            return
        for request, widgets in list(self._capturing.items()):
            if widget in widgets:
                widgets.remove(widget)
            if not widgets:
                del self._capturing[request]
        request: Any = known["msg_id"]
        if isinstance(request, str) and request:
            self._capturing.setdefault(request, []).append(widget)


def _collector(outputs: Any) -> OutputCollector:
    """Return a collector with these outputs."""
    collector = OutputCollector()
    for output in cast("list[Any]", outputs) if isinstance(outputs, list | tuple) else ():
        if isinstance(output, dict):
            kind = cast("Json", output).get("output_type")
            if kind in OUTPUT_MESSAGES:
                collector.add(str(kind), cast("Json", output))
    return collector

"""Output widgets of ipywidgets: output that a widget captures does not belong to the cell.

A capturing widget has the id of a request as its ``msg_id``. Until the id is cleared, the request's
outputs belong to the widget, as in JupyterLab and nbclient; if widgets are nested, to the innermost.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, cast

from tk_ai_extension.kernels.collector import (
    MAX_OUTPUT_BYTES,
    OUTPUT_MESSAGES,
    OutputBudget,
    OutputCollector,
)
from tk_ai_extension.model.json_values import Json

_WIDGET = 2048  # bytes counted for a widget in addition to its id and outputs


class OutputWidgets:
    """The Output widgets of one incarnation of a kernel, and what they have captured.

    Args:
        is_listening: Returns whether a request, given by its id, has not ended yet.
        limit: Bytes that all widgets may keep together.
    """

    def __init__(self, is_listening: Callable[[str], bool], limit: int = MAX_OUTPUT_BYTES) -> None:
        self._is_listening = is_listening
        self._budget = OutputBudget(limit)
        # By request, the widgets that capture it, innermost last.
        self._capturing: dict[str, list[str]] = {}
        self._outputs: dict[str, OutputCollector] = {}
        # By request, the widgets whose outputs were not sent to the kernel yet.
        self._changed: dict[str, set[str]] = {}
        # By request, the characters that its widgets could not keep.
        self._dropped: Counter[str] = Counter()

    def captures(self, request: str, kind: str, content: Mapping[str, Any]) -> bool:
        """Process an iopub message; return whether it belongs to a widget and not to the cell.

        Args:
            request: The id of the message's parent.
            kind: The message's type.
            content: Its content.
        """
        if kind in ("comm_open", "comm_msg"):
            self._set_state(request, content)
            return False
        if kind == "comm_close":
            self._close(str(content.get("comm_id")))
            return False
        widgets = self._capturing.get(request)
        if not widgets or kind not in OUTPUT_MESSAGES:
            return False
        return self._capture(request, widgets[-1], kind, content)

    def ended(self, request: str) -> tuple[list[Json], str]:
        """End a request; return what widgets captured of it, and a note of what they did not keep.

        Returns:
            Contents of ``comm_msg``: sent to the kernel, they update its widgets as a front end does.
            The note is empty if they kept everything.
        """
        changed = self._changed.get(request, ())
        dropped = self._dropped[request]
        self.forget(request)
        updates: list[Json] = [
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
        if not dropped:
            return updates, ""
        return updates, (
            f"[{dropped:,} characters of output in widgets were dropped: the limit is "
            f"{self._budget.text} for all Output widgets of a kernel. Clear or close some.]\n"
        )

    def forget(self, request: str) -> None:
        """Forget a request. The widgets keep what they have captured of it."""
        self._capturing.pop(request, None)
        self._changed.pop(request, None)
        del self._dropped[request]  # a Counter ignores a missing key

    def _capture(self, request: str, widget: str, kind: str, content: Mapping[str, Any]) -> bool:
        if kind == "update_display_data":
            shown = self._outputs.get(widget)
            if shown is None or not shown.shows(content):
                return False
        collector = self._collector(widget)
        if collector is None:
            self._dropped[request] += len(json.dumps(content, default=str))
            return True
        collector.add(kind, content)
        self._note_dropped(request, collector)
        self._changed.setdefault(request, set()).add(widget)
        return True

    def _collector(self, widget: str) -> OutputCollector | None:
        """Return the collector of a widget; None if there is no room for another widget."""
        collector = self._outputs.get(widget)
        if collector is None and self._budget.take(_WIDGET + len(widget)):
            collector = self._outputs[widget] = OutputCollector(self._budget)
        return collector

    def _note_dropped(self, request: str, collector: OutputCollector) -> None:
        collector.drain_events()  # a status is not an output
        if collector.dropped and self._is_listening(request):
            self._dropped[request] += collector.dropped
        collector.dropped = 0

    def _set_state(self, request: str, content: Mapping[str, Any]) -> None:
        widget = str(content.get("comm_id"))
        data: Any = content.get("data")
        state: Any = cast("Json", data).get("state") if isinstance(data, dict) else None
        if not isinstance(state, dict):
            return
        known = cast("Json", state)
        if "outputs" in known:
            self._set_outputs(request, widget, _nbformat(known["outputs"]))
        if "msg_id" in known:
            self._release(widget)
            captured: Any = known["msg_id"]
            if isinstance(captured, str) and self._is_listening(captured):
                self._capturing.setdefault(captured, []).append(widget)

    def _set_outputs(self, request: str, widget: str, outputs: list[Json]) -> None:
        """Note outputs that the code sets itself; captured output is appended to them."""
        collector = self._collector(widget) if outputs else self._outputs.get(widget)
        if collector is None:
            return
        collector.add("clear_output", {})
        collector.dropped = 0
        for output in outputs:
            collector.add(str(output["output_type"]), output)
        self._note_dropped(request, collector)

    def _release(self, widget: str) -> None:
        """End a widget's capture."""
        for request, widgets in list(self._capturing.items()):
            if widget in widgets:
                widgets.remove(widget)
            if not widgets:
                del self._capturing[request]

    def _close(self, widget: str) -> None:
        self._release(widget)
        collector = self._outputs.pop(widget, None)
        if collector is not None:
            collector.add("clear_output", {})
            self._budget.take(-_WIDGET - len(widget))
            for changed in self._changed.values():
                changed.discard(widget)


def _nbformat(outputs: Any) -> list[Json]:
    """Return the outputs in a widget's state: other widgets may have outputs of another form."""
    found = cast("list[Any]", outputs) if isinstance(outputs, (list, tuple)) else []
    bundles = [cast("Json", each) for each in found if isinstance(each, dict)]
    return [each for each in bundles if str(each.get("output_type")) in OUTPUT_MESSAGES]

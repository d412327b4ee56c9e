"""Outputs of a running cell in a tab of JupyterLab."""

from __future__ import annotations

from collections.abc import Sequence

from tk_ai_extension.model.cells import Json
from tk_ai_extension.model.encoding import encodable
from tk_ai_extension.model.outputs import (
    Append,
    ClearOutputs,
    OutputChange,
    ReplaceOutput,
    StreamBuffer,
    StreamEdit,
    stream_text,
)
from tk_ai_extension.notebooks.output_writer import OutputPlace
from tk_ai_extension.notebooks.running_outputs import RunningOutputs
from tk_ai_extension.notebooks.tabs.protocol import Tab, TabRefused
from tk_ai_extension.notebooks.tabs.registry import TabRegistry, refusal
from tk_ai_extension.notebooks.tabs.steps import utf16

_OTHERS = -1
"""The number of outputs that no cell has: what is there is not what was written."""


class TabPlace(OutputPlace):
    """The outputs of one running cell in a tab; see `OutputPlace`.

    Args:
        tabs: What is known of tabs.
        tab: The tab.
        cell: The cell's id in it; None where it has no such cell.
    """

    def __init__(self, tabs: TabRegistry, tab: Tab, cell: str | None) -> None:
        self.tab = tab
        self._tabs = tabs
        self._cell = cell
        # How many outputs the cell has there, if nobody else changed them; None before the first message.
        self._expected: int | None = None
        # Whether the next message holds all of them.
        self._is_whole = True
        # How many there are, where they are not told as a whole, and those of them that are streams.
        self._size = 0
        self._texts: dict[int, StreamBuffer] = {}

    async def begin(self, run: RunningOutputs) -> None:
        """See `OutputPlace.begin`; what came before the notebook was in this tab comes along."""
        await self._tell_whole(run, start=True)

    async def push_outputs(self, run: RunningOutputs) -> None:
        """See `OutputPlace.push_outputs`."""
        if self._cell is None:
            run.take()
        elif self._is_whole:
            if not await self._tell({}):
                run.hide()
            run.take()
            await self._tell_whole(run)
        elif run.pending:
            as_expected = await self._tell({"changes": self._told(run.pending)})
            if not as_expected:
                run.hide()
            run.take()
            if not as_expected:
                await self._tell_whole(run)
        self._tabs.save_soon(self.tab)

    async def end(self, run: RunningOutputs, *, save: bool) -> None:  # noqa: ARG002
        """See `OutputPlace.end`; a tab is saved within a second, which is not waited for."""
        end = {"finish": True, "execution_count": run.execution_count}
        # Where its outputs are not as expected any more, its end comes all the same.
        if not await self._tell(end):
            await self._tell(end)
        self._tabs.save_soon(self.tab)

    def outputs_set(self) -> None:
        """An edit gave the cell other outputs: as many as before, perhaps, but not ours."""
        self._expected = _OTHERS

    async def _tell_whole(self, run: RunningOutputs, **more: bool) -> None:
        """Sets all outputs that are to be seen."""
        outputs = encodable(run.outputs())
        if not await self._tell({"whole": outputs, **more}):
            return
        if not run.is_hidden:
            self._is_whole, self._size = False, len(outputs)
            self._texts = {
                index: StreamBuffer(stream_text(output))
                for index, output in enumerate(outputs)
                if output.get("output_type") == "stream"
            }

    async def _tell(self, what: Json) -> bool:
        """Sends a message about the cell; whether its outputs were as expected, and it was done.

        Raises:
            TabGone, ToolError.
        """
        if self._cell is None:
            return True
        try:
            answer = await self.tab.ask("outputs", cell=self._cell, expected=self._expected, **what)
        except TabRefused as error:
            raise refusal(error, self.tab.path) from error
        if answer.get("gone"):
            self._cell = None
            return True
        self._expected = int(answer["count"])
        if answer["applied"]:
            return True
        self._is_whole = True
        return False

    def _told(self, changes: Sequence[OutputChange]) -> list[Json]:
        """Changes as a tab is told them; what of a stream goes is counted as JavaScript counts."""
        told: list[Json] = []
        for change in changes:
            match change:
                case Append(output):
                    shared = encodable(output)
                    self._note(self._size, shared)
                    self._size += 1
                    told.append({"append": shared})
                case StreamEdit(index, start, new):
                    gone = self._texts[index].edit(start, new)
                    told.append({"stream": index, "cut": utf16(gone), "text": encodable(new)})
                case ReplaceOutput(index, output):
                    shared = encodable(output)
                    self._note(index, shared)
                    told.append({"replace": index, "output": shared})
                case ClearOutputs():
                    self._texts.clear()
                    self._size = 0
                    told = [{"clear": True}]
        return told

    def _note(self, index: int, output: Json) -> None:
        self._texts.pop(index, None)
        if output.get("output_type") == "stream":
            self._texts[index] = StreamBuffer(stream_text(output))

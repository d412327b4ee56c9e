"""One edit of a notebook in a tab: sent, saved, and reverted if it cannot be saved."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from tk_ai_extension.model.errors import OutcomeUnknown
from tk_ai_extension.model.operations import LateOutcome
from tk_ai_extension.notebooks.session import StoredDocument
from tk_ai_extension.notebooks.tabs.patch import TabPatch
from tk_ai_extension.notebooks.tabs.protocol import Tab, TabGone, TabRefused
from tk_ai_extension.notebooks.tabs.registry import TabRegistry, refusal
from tk_ai_extension.notebooks.tabs.replica import TabReplica

_log = logging.getLogger(__name__)

ROOM_SAVE = 10.0
"""Seconds within which a collaboration room has to write an edit."""

ROOM_DELAY = 3.0
"""Seconds after which a room has written what it got from a page that is gone."""

T = TypeVar("T")


class TabEdit:
    """An edit in a tab.

    An edit counts as failed only if the notebook is without it. A lost connection or a refusal does not
    show that: the tab may have applied the edit before, and people may have changed its cells since, so
    that it cannot be reverted. So the tab is asked; if it is gone for good, the file is compared.

    Args:
        tabs: The registry of tabs.
        tab: The tab.
        kept: The document of the stored notebook.
        patch: The edit.
    """

    def __init__(self, tabs: TabRegistry, tab: Tab, kept: StoredDocument, patch: TabPatch) -> None:
        self.patch = patch
        self._tabs = tabs
        self._tab = tab
        self._kept = kept
        self._op, self._revert_op = uuid.uuid4().hex, uuid.uuid4().hex
        # The version after which a change of its cells by others forbids the revert.
        self._since = 0

    # --- steps

    async def apply(self, replica: TabReplica, *, exact: bool) -> bool:
        """Have the tab apply the edit and update the replica; return whether the tab applied it.

        Args:
            replica: The tab's replica.
            exact: Whether the outputs of the cells concerned must be unchanged, too.

        Raises:
            TabGone: see `is_in_file`.
            TabRefused: see `stays`.
        """
        self._since = replica.version
        message = {"op": self._op, "exact": exact, "since": self._since, **self.patch.message()}
        try:
            answer = await self._tab.ask("apply", **message)
            self._since = int(answer["version"])
            await replica.take(answer, self._tab)
        except TabGone:
            if not await self._tabs.returns(self._tab):
                raise
            # Its id makes the edit idempotent. This answer may include later changes of others: the
            # revert must not start from its version.
            answer = await self._tab.ask("apply", **message)
            await replica.take(answer, self._tab)
        return bool(answer["applied"])

    async def save(self) -> bool:
        """Have the tab save the edit, or revert it; return whether the notebook has the edit.

        Raises:
            ToolError: the edit cannot be saved and was reverted.
            OutcomeUnknown: see `is_in_file`.
        """
        try:
            if self._tab.shared:
                return await self._ask_again(self._save_in_room)
            await self._ask_again(partial(self._tabs.save, self._tab))
        except TabGone:
            return await self.is_in_file()
        except TabRefused as error:
            failure = refusal(error, self._kept.path)
            if not await self.stays():
                raise failure from error
            self._tabs.warn(
                f"{self._kept.path} was changed in its open tab, but is not saved: {failure.message} "
                "Do not repeat the change. Fix the cause, then save the notebook in JupyterLab."
            )
        return True

    async def _save_in_room(self) -> bool:
        """Have the notebook's collaboration room write the file; return whether the file has the edit.

        A room answers that it saved also where it did not, and reads a file that another program wrote
        over what it has. So the cells of the edit are compared with those in the file.

        Raises:
            TabGone, TabRefused.
        """
        refused = TabRefused("save_failed", "its collaboration room does not write the file.")
        deadline = time.monotonic() + ROOM_SAVE
        replica = self._tabs.replica(self._tab)
        while time.monotonic() < deadline:
            try:
                await self._tabs.save(self._tab)
            except TabRefused as error:
                refused = error
            await replica.update(self._tab)
            shown = replica.snapshot(self._kept.path)
            if self.patch.agree(shown, await self._kept.stored(), replica.ids):
                return self.patch.is_applied_in(shown) is not False
        raise refused

    async def stays(self) -> bool:
        """Revert the edit unless its cells were changed since; return whether the notebook has it.

        Raises:
            OutcomeUnknown: see `is_in_file`; or the tab refuses to answer.
        """
        # The revert of an edit that was never applied would change cells.
        if not await self._is_in_notebook():
            return False
        message = {"op": self._revert_op, "exact": False, "since": self._since}
        with suppress(TabGone, TabRefused):
            await self._ask_again(
                partial(self._tab.ask, "apply", **message, **self.patch.inverse())
            )
        return await self._is_in_notebook()

    async def _is_in_notebook(self) -> bool:
        try:
            return await self._ask_again(self._is_in_tab)
        except TabGone:
            return await self.is_in_file()
        except TabRefused:
            raise self.unknown() from None

    async def _is_in_tab(self) -> bool:
        """Return whether the tab has applied the edit and has not reverted it."""
        ops = (self._op, self._revert_op)
        return [(await self._tab.ask("outcome", op=op))["applied"] for op in ops] == [True, False]

    async def _ask_again(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask the tab, and once more if it disconnects and returns."""
        try:
            return await ask()
        except TabGone:
            if not await self._tabs.returns(self._tab):
                raise
        return await ask()

    # --- when the tab is lost

    async def is_in_file(self) -> bool:
        """Return whether the file has the edit of a tab that is gone for good with its unsaved work.

        Raises:
            OutcomeUnknown: the tab may reconnect with the edit, or the file does not show it.
        """
        if self._tabs.channel.is_known(self._tab.id):
            raise self.unknown()
        deadline = time.monotonic() + (ROOM_DELAY if self._tab.shared else 0)
        while True:
            made = self.patch.is_applied_in(await self._kept.read())
            if made or time.monotonic() >= deadline:
                break
            await asyncio.sleep(0.1)
        if made is None or (self._tab.shared and not made):
            # A page that was cut off from its room may still bring the edit.
            raise self.unknown()
        return made

    def unknown(self) -> OutcomeUnknown:
        """Return the error, which is settled as soon as the tab reports the outcome."""
        error = OutcomeUnknown(
            f"It is unknown whether {self._kept.path} was changed: the connection to its tab was lost "
            "during the change, or the tab does not answer.",
            LateOutcome(),
            op_id=self._op,
        )
        if self._tabs.channel.is_known(self._tab.id):
            self._tabs.spawn(self._settle(error), f"outcome of {self._op}")
        return error

    async def _settle(self, error: OutcomeUnknown) -> None:
        """Wait for the tab to reconnect, ask for the outcome, and settle the error with it."""
        made: bool | None = None
        while await self._tabs.channel.wait_for_return(self._tab, None):
            with suppress(TabGone):
                made = await self._is_kept()
                break
        if not self._tabs.channel.is_known(self._tab.id):
            made = self.patch.is_applied_in(await self._kept.read())
        if made is not None:
            await error.outcome.settle(self.patch.edit.changes() if made else None)

    async def _is_kept(self) -> bool | None:
        """Have the tab save the edit if it has it; return whether it has it, None if it does not answer.

        Raises:
            TabGone.
        """
        made: bool | None = None
        try:
            made = await self._is_in_tab()
            if made:
                await self._tabs.save(self._tab)
        except TabRefused as refused:
            # The tab shows the person that it cannot be saved.
            _log.warning("%s was not saved: %s", self._kept.path, refused.message)
        return made

"""What the turns of a chat changed: the changes that stand, and their undo."""

from __future__ import annotations

import asyncio

from tk_ai_extension.agent.transcripts import Chat, Transcripts
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.workspace.journal import JournalEntry, Touched
from tk_ai_extension.workspace.undo import NetChange, TakenBack, net_changes, undo_entries
from tk_ai_extension.workspace.workspace import Workspace


class ChatChanges:
    """The changes of chats to notebooks and files.

    Args:
        workspace: The workspace with the journal.
        transcripts: The stored chats.
    """

    def __init__(self, workspace: Workspace, transcripts: Transcripts) -> None:
        self._workspace = workspace
        self._transcripts = transcripts

    async def standing(self, chat: Chat) -> list[Touched]:
        """List the chat's changes that nobody has undone, newest first."""
        return await self._workspace.journal.touched(caller_of(chat))

    async def net(self, chat: Chat, turn: str) -> list[NetChange]:
        """Return what a turn changed by cell, from before the turn to after it.

        What was undone is not included.
        """
        caller = caller_of(chat)
        entries = await self._workspace.journal.undoable(caller, None, turn=turn)
        # In a thread: the sources are long.
        return await asyncio.to_thread(net_changes, entries)

    async def undo_turn(
        self,
        chat: Chat,
        turn: str,
        *,
        cells: frozenset[str] | None = None,
        onwards: bool = False,
    ) -> list[TakenBack]:
        """Undo a turn's changes that nobody has edited since; in each notebook all or none.

        Args:
            chat: The chat.
            turn: The turn.
            cells: Keys of the cells to undo; None for all.
            onwards: Also undo what the chat changed after that turn.

        Raises:
            NothingToUndo, or the error of the only notebook.
        """
        caller = caller_of(chat)
        if onwards:
            entries = await self._onwards(chat, turn)
        else:
            entries = await self._workspace.journal.undoable(caller, None, turn=turn)
        if cells is not None:
            entries = [entry.only(cells) for entry in entries]
        return await undo_entries(self._workspace, caller, entries, of="of a turn")

    async def undo_from(self, chat: Chat, turn: str) -> list[TakenBack]:
        """Undo what a turn and all later ones changed, as far as possible.

        In each notebook all or none of it is undone, except cells that somebody edited since.
        """
        entries = await self._onwards(chat, turn)
        if not entries:
            return []
        return await undo_entries(
            self._workspace,
            caller_of(chat),
            entries,
            of="of a turn and those after it",
            raises=False,
        )

    async def _onwards(self, chat: Chat, turn: str) -> list[JournalEntry]:
        """Return the entries of a turn and of all later ones, newest first."""
        journal, caller = self._workspace.journal, caller_of(chat)
        entries: list[JournalEntry] = []
        # By turn: one query returns all of a turn, and a bounded number of others.
        for each in await self._transcripts.onwards(chat.id, turn):
            entries += await journal.undoable(caller, None, turn=each)
        return sorted(entries, key=lambda entry: entry.id, reverse=True)


def caller_of(chat: Chat) -> Caller:
    """Return a chat as a caller outside of any turn, for a person's own actions on its changes."""
    return Caller(user=chat.user, key=chat.id, interface="chat", name=chat.user)

"""The chats of a server.

Several servers may share the store. Only one at a time runs turns in a chat; another can continue it later.
"""

from __future__ import annotations

import asyncio
import builtins
import json
import logging
import re
import secrets
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import nbformat

from tk_ai_extension.agent.backend import AgentBackend
from tk_ai_extension.agent.chat_events import ChatEvent, ChatRestored, TurnEnded, TurnFailed
from tk_ai_extension.agent.chat_requests import APPROVED, ChatMessage, ChatRequest, QuestionAnswer
from tk_ai_extension.agent.chat_store import Chat
from tk_ai_extension.agent.live_chat import ChatServices, LiveChat
from tk_ai_extension.model.agent_errors import AgentDied, AgentUnavailable
from tk_ai_extension.model.background_tasks import BackgroundTasks
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import (
    InvalidArguments,
    LimitReached,
    NotFound,
    PermissionDenied,
    ToolError,
)
from tk_ai_extension.model.json_values import encodable_text
from tk_ai_extension.model.output_text import shorten
from tk_ai_extension.model.paths import is_deleted
from tk_ai_extension.notebooks.notebook import Notebook, deleted_error
from tk_ai_extension.workspace.journal import JournalEntry
from tk_ai_extension.workspace.undo import (
    CombinedChange,
    UndoResult,
    combined_changes,
    undo_entries,
)

logger = logging.getLogger(__name__)

MAX_TITLE = 80
"""Maximum length of a title, in characters."""
MAX_RESULT = 2_000
"""Maximum length of a tool's result in an export, in characters."""


@dataclass(frozen=True, slots=True)
class TurnStream:
    """A queued turn and the stream of its events."""

    chat: str
    turn: str
    events: AsyncIterator[ChatEvent]


class Chats:
    """Every chat of a server, by user.

    A chat that is not the user's is not found (`ChatNotFound`). While another server is running a turn in a
    chat, it is only listed (`ChatRunningElsewhere`).

    Args:
        services: The services that all chats share.
    """

    def __init__(self, services: ChatServices) -> None:
        self._services = services
        self._store = services.store
        self._workspace = services.workspace
        self.setup = services.setup
        self.get = self._store.get
        # Stored paths follow renames and deletions. Messages hold their notebooks.
        self.move, self.detach = self._store.move, self._store.detach
        # Least recently used first.
        self._live: dict[str, LiveChat] = {}
        # Held while a user's new chat is created.
        self._beginning: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._closing: asyncio.Task[None] | None = None

    async def send(self, user: str, request: ChatRequest) -> TurnStream:
        """Queue a turn in one of the user's chats, or in a new one.

        A message with the id of an earlier message of the user starts no second turn.

        Args:
            user: The owner of the chat.
            request: The message.

        Raises:
            NoModel, PathRefused, InvalidArguments, NotebookNotFound, LimitReached.
            InvalidArguments: the chat has no turn `request.replaces`.
            NotFound: the plan was already approved, or another message was sent.
            PermissionDenied: a plan is approved, and the server only allows the mode `plan`.
        """
        chat_id = request.chat
        if chat_id is None and request.latest:
            about = await self._notebook(user, request)
            path = None if about is None else about.stored_path
            found = await self._store.list(user)
            chat_id = next((chat.id for chat in found if chat.notebook == path), None)
        if chat_id is None:
            async with self._beginning[user]:
                return await self._sent(user, request) or await self._begin(user, request)
        async with self._queueing(user, chat_id) as (chat, live):
            if (begun := await self._sent(user, request)) is not None:
                return begun
            if request.approves is None:
                message = await self._message(user, request)
            else:
                message = await self._approval(chat, request)
            if request.replaces is not None:
                await self._replace(chat, live, request.replaces, undo=request.undo_replaced)
            return await self._send(chat, live, message)

    async def list(self, user: str, words: Sequence[str] = ()) -> builtins.list[tuple[Chat, bool]]:
        """List the user's chats, most recently used first, and whether each is busy.

        Each of the words must be in the chat's title, or in one of its messages or answers.
        """
        return [(chat, self.busy(chat)) for chat in await self._store.list(user, words)]

    @property
    def working(self) -> builtins.list[LiveChat]:
        """Chats with a running or queued turn in this server."""
        return [live for live in self._live.values() if live.busy]

    def busy(self, chat: Chat) -> bool:
        """Whether a turn of a chat is running or queued in this server."""
        return (live := self._live.get(chat.id)) is not None and live.busy

    async def export(self, user: str, chat_id: str, *, as_notebook: bool = False) -> str:
        """Return a chat as Markdown, without replaced turns, or as the JSON of a notebook.

        The notebook has a Markdown cell for each part: code cells could run again by accident.
        """
        chat = await self.get(user, chat_id)
        await self._saved(user, chat_id)
        turns = await self._store.turns(chat_id)
        events = [each for each in await self._store.events(chat_id) if turns.get(each.turn)]
        return await asyncio.to_thread(
            _exported, chat, events, self._services.agent_of, as_notebook=as_notebook
        )

    async def page(
        self, user: str, chat_id: str, after: int = 0
    ) -> tuple[builtins.list[ChatEvent], bool]:
        """Return a page of about `PAGE_BYTES` of the events after one, and whether more follow."""
        await self._saved(user, chat_id)
        return await self._store.page(chat_id, after)

    async def follow(
        self, user: str, chat_id: str, after: int = 0, *, turn: str | None = None
    ) -> AsyncIterator[ChatEvent]:
        """Yield the events of a chat after one, until the chat is deleted or the server stops.

        With a turn, yield only its events, up to its last one.

        Raises:
            InvalidArguments: there is no event of that number yet.
        """
        live = await self._saved(user, chat_id)
        if not 0 <= after <= live.log.last:
            raise InvalidArguments(
                f"This chat has no event {after} yet.",
                hint="Omit Last-Event-ID to receive all events.",
            )
        return live.log.after(after, turn=turn)

    async def stop(self, user: str, chat_id: str, turn: str | None = None) -> bool:
        """Stop the running and queued turns, or one of them; return whether there were any."""
        live = self._live.get((await self.get(user, chat_id)).id)
        return live is not None and await live.stop(turn)

    async def answer(self, user: str, chat_id: str, answer: QuestionAnswer) -> None:
        """Answer or skip the pending questions of a call; see `Turn.answer`."""
        (await self._saved(user, chat_id)).answer(answer.call, answer.answers)

    async def rename(self, user: str, chat_id: str, title: str) -> None:
        """Rename a chat."""
        await self._store.rename(await self.get(user, chat_id), encodable_text(title)[:MAX_TITLE])

    async def delete(self, user: str, chat_id: str) -> None:
        """End a chat and remove its events; its changes to notebooks are kept."""
        async with self._queueing(user, chat_id) as (chat, live):
            await live.close("The chat was deleted.")
            sessions = await self._store.sessions(chat)
            await self._store.delete(chat.id)
            self._live.pop(chat.id, None)
            await live.log.close()
        for each in sessions:
            try:
                await self._services.agent_of(each).forget(each)
            except (ToolError, OSError) as error:
                logger.warning("Cannot remove the data of an agent's session: %s", error)
        self._workspace.forget(_caller_of(chat))

    async def changes_of(self, user: str, chat_id: str, turn: str) -> builtins.list[CombinedChange]:
        """Return a turn's combined changes by cell, without undone ones."""
        entries = await self._entries(await self.get(user, chat_id), [turn])
        # In a thread: the sources are long.
        return await asyncio.to_thread(combined_changes, entries, user)

    async def undo_turn(
        self, user: str, chat_id: str, *, turn: str, cells: frozenset[str] | None = None
    ) -> builtins.list[UndoResult]:
        """Undo a turn's changes that were not edited since; in each notebook all or none.

        With the keys of cells, undo only the changes of these cells.

        Raises:
            NothingToUndo, or the error of the only notebook.
        """
        chat = await self.get(user, chat_id)
        entries = await self._entries(chat, [turn])
        if cells is not None:
            entries = [entry.only(cells) for entry in entries]
        return await undo_entries(self._workspace, _caller_of(chat), entries, of="of a turn")

    async def restore(self, user: str, chat_id: str, turn: str) -> builtins.list[UndoResult]:
        """Restore a chat and its notebooks to before a turn.

        The turn and all later ones are stopped, their changes are undone unless the cell was
        edited since, and the agent forgets them. They stay in the chat as replaced turns.

        Raises:
            InvalidArguments: the chat has no such turn, or it was already replaced or restored.
        """
        async with self._queueing(user, chat_id) as (chat, live):
            return await self._replace(chat, live, turn, undo=True)

    async def close(self) -> None:
        """End all chats and save their events; idempotent."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name="tk-ai chats end")
        await asyncio.shield(self._closing)

    # -- messages

    async def _sent(self, user: str, request: ChatRequest) -> TurnStream | None:
        """Return the turn of a message that was sent before under the same id; None if it was not."""
        sent = None if request.id is None else await self._store.sent(user, request.id)
        if sent is None:
            return None
        return TurnStream(*sent, await self.follow(user, sent[0], turn=sent[1]))

    async def _begin(self, user: str, request: ChatRequest) -> TurnStream:
        """Begin a new chat with a message; the caller holds the user's lock."""
        message = await self._message(user, request)
        title = encodable_text(" ".join(request.message.split()))[:MAX_TITLE]
        chat_id = secrets.token_hex(12)
        await self._store.create(user, chat_id, title)
        try:
            async with self._queueing(user, chat_id) as (chat, live):
                return await self._send(chat, live, message)
        except ToolError:
            self._live.pop(chat_id, None)
            await self._store.delete(chat_id)
            raise

    async def _message(self, user: str, request: ChatRequest) -> ChatMessage:
        """Return a message as it is sent to a model, with its notebook.

        Raises:
            NotebookNotFound, PathRefused, InvalidArguments, NoModel, LimitReached.
        """
        about = await self._notebook(user, request)
        text = await self.setup.expand(user, request.message)
        return await self._checked(request, about, text)

    async def _approval(self, chat: Chat, request: ChatRequest) -> ChatMessage:
        """Return the message with which the agent carries out the pending plan of a chat.

        Raises:
            NotFound, PermissionDenied: See `send`.
            NoModel, NotebookNotFound, InvalidArguments.
        """
        turn, usual = await self._store.plan(chat.id) or ("", "")
        if turn != request.approves:
            raise NotFound(
                "This chat has no pending plan of that turn.",
                hint="It was approved, or another message was sent since. Ask for a new plan.",
            )
        if self._workspace.policy.mode(Caller(chat.user, mode=request.mode)) == "plan":
            raise PermissionDenied(
                "This server only allows the permission mode `plan`.",
                hint="Ask its administrator to raise `mode_cap`.",
            )
        text = f"{APPROVED} {request.message.strip()}".rstrip()
        return await self._checked(request, self._at(chat.notebook), text, usual=usual)

    async def _notebook(self, user: str, request: ChatRequest) -> Notebook | None:
        """Return the notebook that a message is about; None for none.

        With `notebook_of`, it is that turn's notebook, which may have been renamed since the sender got
        its path.

        Raises:
            NotebookNotFound, PathRefused, InvalidArguments.
        """
        found = None
        if request.notebook_of is not None and request.chat is not None:
            await self._saved(user, request.chat)
            found = await self._store.notebook_of(request.chat, request.notebook_of)
        path = request.notebook
        if found is None and path is not None and not is_deleted(path):
            found = self._workspace.contain(path)
        return self._at(found or path)

    def _at(self, path: str | None) -> Notebook | None:
        """Return the notebook at a stored path; None for no path.

        Raises:
            NotebookNotFound: It was deleted since the path was stored.
        """
        if path is not None and is_deleted(path):
            raise deleted_error(path)
        return None if path is None else self._workspace.by_path.at(path)

    async def _checked(
        self, request: ChatRequest, about: Notebook | None, text: str, *, usual: str = ""
    ) -> ChatMessage:
        """Return a message with this text; its model exists, and its notebook can be read.

        Raises:
            NoModel, InvalidArguments, NotebookNotFound.
        """
        model = await self._services.model(request.model, usual=usual)
        if about is not None:
            about.check_present()
            await (await self._workspace.store.open(about.path)).read()
        return ChatMessage(request.model_copy(update={"message": text}), about, model)

    async def _send(self, chat: Chat, live: LiveChat, message: ChatMessage) -> TurnStream:
        """Queue a turn; the caller holds the chat's lock."""
        if self._closing is not None:
            raise AgentUnavailable("The server is stopping.", hint="Start it again.")
        await self._make_room(live)
        await self._store.used(chat.id)
        before = live.log.last
        turn = live.send(message)
        # Saved now, so that it is recognized if it is sent again.
        await live.log.save()
        return TurnStream(chat.id, turn, live.log.after(before, turn=turn))

    async def _replace(
        self, chat: Chat, live: LiveChat, turn: str, *, undo: bool
    ) -> builtins.list[UndoResult]:
        """Stop a turn and all later ones, make the agent forget them, and undo their changes.

        Raises:
            InvalidArguments: the chat has no such turn, or it was already replaced.
            LimitReached.
        """
        turns = await self._store.turns(chat.id)
        if not turns.get(turn):
            raise InvalidArguments(
                f"The chat has no turn `{turn[:80]}` to replace.",
                hint="Another message may have replaced it: reload the chat.",
            )
        # With the turns that were replaced before.
        onwards = list(turns)[list(turns).index(turn) :]
        replaced = [each for each in onwards if turns[each]]
        for each in replaced:
            await live.stop(each)
        taken: list[UndoResult] = []
        if undo:
            for each in replaced:
                await live.until_ended(each)
            if entries := await self._entries(chat, onwards):
                of = "of a turn and those after it"
                taken = await undo_entries(
                    self._workspace, _caller_of(chat), entries, of=of, raises=False
                )
        await live.log.save()
        if await self._store.replace(chat.id, replaced):
            live.started_for = None
        if undo:
            live.log.add(turn, ChatRestored(taken))
            await live.log.save()
        return taken

    async def _entries(self, chat: Chat, turns: Sequence[str]) -> builtins.list[JournalEntry]:
        """Return the journal entries of turns that can be undone, newest first."""
        journal, caller = self._workspace.journal, _caller_of(chat)
        # By turn: one query returns all of a turn, and a bounded number of others.
        found = [await journal.undoable(caller, None, turn=each) for each in turns]
        entries = [entry for of_turn in found for entry in of_turn]
        return sorted(entries, key=lambda entry: entry.id, reverse=True)

    # -- open chats

    @asynccontextmanager
    async def _queueing(self, user: str, chat_id: str) -> AsyncGenerator[tuple[Chat, LiveChat]]:
        """Hold the lock of one of the user's chats, with its events so far stored."""
        live = await self._saved(user, chat_id)
        async with live.lock:
            await live.log.save()
            # It may have been deleted since.
            yield await self.get(user, chat_id), live

    async def _saved(self, user: str, chat_id: str) -> LiveChat:
        """Open one of the user's chats, with its events so far stored."""
        chat = await self.get(user, chat_id)
        live = self._live.setdefault(chat.id, LiveChat(self._services, chat))
        await live.log.save()
        last, left = await self._store.open(chat.id)
        if live.log.continue_after(last):
            live.started_for = None
            for turn in left:
                error = AgentDied("The server stopped before this turn had ended.")
                live.log.add(turn, TurnFailed(error.as_dict()))
                live.log.add(turn, TurnEnded("failed"))
            await live.log.save()
        return live

    async def _make_room(self, live: LiveChat) -> None:
        """Close the agent of the chat that was idle the longest, if there are too many.

        Raises:
            LimitReached: all of them are busy.
        """
        self._live[live.id] = self._live.pop(live.id)
        others = [each for each in self._live.values() if each.has_agent or each.busy]
        if live.has_agent or live.busy or len(others) < self._services.settings.max_live:
            return
        idle = next((each for each in others if not each.busy), None)
        if idle is None:
            raise LimitReached(
                f"{len(others)} chats are running.", hint="Wait until one ends, or stop one."
            )
        await idle.rest()

    async def _close(self) -> None:
        closing = BackgroundTasks(logger)
        for live in self._live.values():
            closing.spawn(live.close("The server stopped."), "Closing a chat")
        await closing.join()
        await asyncio.gather(*(live.log.close() for live in self._live.values()))
        self._live.clear()
        await self._store.close()


def _caller_of(chat: Chat) -> Caller:
    """Return a chat as a caller outside of any turn, for a person's actions on its changes."""
    return Caller(user=chat.user, key=chat.id, interface="chat", name=chat.user)


def _exported(
    chat: Chat,
    events: Sequence[ChatEvent],
    agent_of: Callable[[str], AgentBackend],
    *,
    as_notebook: bool,
) -> str:
    parts = [f"# {' '.join(chat.title.split())}", *_parts(events, agent_of)]
    if not as_notebook:
        return "\n\n".join(parts) + "\n"
    cells = [nbformat.v4.new_markdown_cell(part) for part in parts]
    return str(nbformat.writes(nbformat.v4.new_notebook(cells=cells)))


def _parts(events: Sequence[ChatEvent], agent_of: Callable[[str], AgentBackend]) -> Iterator[str]:
    # The text since the last part, by block: the model may begin a block again.
    written: dict[int, str] = {}
    for event in events:
        if event.kind == "text":
            block = event.data["block"]
            written[block] = written.get(block, "") + event.data["text"]
        elif event.kind == "discarded":
            written = {n: text for n, text in written.items() if n < event.data["block"]}
        elif part := _part(event, agent_of):
            if written:
                yield "".join(written.values())
            yield part
            written = {}
    if written:
        yield "".join(written.values())


def _part(event: ChatEvent, agent_of: Callable[[str], AgentBackend]) -> str:
    data = event.data
    match event.kind:
        case "message":
            where = f" ({data['notebook']})" if data["notebook"] else ""
            agent = agent_of(data["model"]).name
            return f"## You{where}\n\n{data['text']}\n\n## {agent}"
        case "tool_call":
            # Code is shown as code: in JSON, each of its lines would end with an escape.
            arguments = dict(data["arguments"])
            code = [arguments.pop(name) for name in ("source", "code") if arguments.get(name)]
            given = json.dumps(arguments, indent=1, ensure_ascii=False)
            parts = [_fenced(given, "json")] if arguments else []
            parts += [_fenced(str(each)) for each in code]
            return "\n\n".join([f"**{data['tool']}**", *parts])
        case "tool_result":
            return _fenced(shorten(data["text"], MAX_RESULT).text)
        case "notice":
            return f"*{data['text']}*"
        case "error":
            return f"*Error: {data['error']['message']}*"
        case "done" if data["end"] == "stopped":
            return "*Stopped.*"
        case _:
            return ""


def _fenced(text: str, language: str = "") -> str:
    """Return a fenced block with a fence longer than any in its text."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"

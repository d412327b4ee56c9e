"""The chats of a server: begun, found again, let go."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, replace
from weakref import WeakValueDictionary

from tk_ai_extension.agent.events import Event, PlanSettled
from tk_ai_extension.agent.requests import Asking, ChatRequest, Message, PlanAnswer
from tk_ai_extension.agent.session import ChatServices
from tk_ai_extension.agent.sessions import Sessions
from tk_ai_extension.agent.transcripts import MAX_CHAT, Chat
from tk_ai_extension.model.agent_errors import (
    ChatElsewhere,
    NoModel,
    PlanNotFound,
)
from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import InvalidArguments, LimitReached, PermissionDenied, ToolError
from tk_ai_extension.workspace import taking_back
from tk_ai_extension.workspace.journal import Touched
from tk_ai_extension.workspace.taking_back import TakenBack

MAX_TITLE = 80
"""Characters of a title."""


@dataclass(frozen=True, slots=True)
class StartedTurn:
    """A turn that was queued, and how its events are followed."""

    chat: str
    turn: str
    events: AsyncIterator[Event]


class Chats:
    """Every chat of a server, by user.

    Chats are kept in the transcripts; those that are used are sessions besides.

    Args:
        services: What all chats share.
    """

    def __init__(self, services: ChatServices) -> None:
        self._services = services
        self._sessions = Sessions(services)
        # Held by those who replace a turn just now, and by nobody afterwards.
        self._replacing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def send(
        self, user: str, request: ChatRequest, *, asking: Asking | None = None
    ) -> StartedTurn:
        """Queues a turn in a chat of the user's, or in a new one.

        Args:
            user: Whose chat.
            request: What is sent.
            asking: The running cell that sends it.

        Raises:
            ChatNotFound, ChatElsewhere, NoModel, PathRefused, NotANotebook, NotebookNotFound,
            LimitReached.
            InvalidArguments: what it is to take the place of is no turn of the chat.
        """
        workspace = self._services.workspace
        model = await self._model(request.model)
        notebook = None if request.notebook is None else workspace.contain(request.notebook)
        if notebook is not None:
            await (await workspace.store.open(notebook)).read()
        message = Message(request, notebook, model, asking)
        known = await self._known(user, request, notebook)
        if known is not None and request.replaces is not None:
            return await self._replace(known, request.replaces, message)
        if known is not None:
            return await self._send(known, message)
        title = storable(" ".join(request.message.split()))[:MAX_TITLE]
        chat = await self._services.transcripts.create(user, secrets.token_hex(12), title, notebook)
        try:
            begun = await self._send(chat, message)
        except LimitReached:
            await self._services.transcripts.delete(chat)
            raise
        for old in await self._services.transcripts.over(user):
            with suppress(ChatElsewhere):
                await self._remove(old)
        return begun

    async def answer_plan(self, user: str, chat_id: str, answer: PlanAnswer) -> StartedTurn:
        """Has the plan of a chat carried out, or made anew; queues the turn that does so.

        Raises:
            ChatNotFound, ChatElsewhere.
            PlanNotFound: that plan does not wait: it was answered, or another message was sent.
            PermissionDenied: the server allows no more than plans.
            NoModel, NotebookNotFound, LimitReached.
        """
        services = self._services
        chat = await self.get(user, chat_id)
        await self._sessions.saved(chat.id)
        plan = await services.transcripts.plan(chat.id)
        if plan is None or plan.turn != answer.plan:
            raise PlanNotFound("No plan of that turn waits for an answer in this chat.")
        approved = answer.answer == "approve"
        mode = answer.mode if approved else "plan"
        if approved and services.workspace.policy.mode(Caller(user, mode=mode)) == "plan":
            raise PermissionDenied(
                "This server only lets plans be made.",
                hint="Its administrator has set `mode_cap` to `plan`.",
            )
        model = await self._model(answer.model, usual=str(plan.data["model"]))
        if chat.notebook is not None:
            await (await services.workspace.store.open(chat.notebook)).read()
        request = ChatRequest.model_construct(message=answer.message, mode=mode)
        message = Message(request, chat.notebook, model)
        settled = PlanSettled(plan.turn, "approved" if approved else "rejected")
        return await self._send(chat, message, settled)

    async def list(self, user: str) -> list[tuple[Chat, bool]]:
        """The user's chats, the one used last first, and whether each is busy."""
        chats = await self._services.transcripts.list(user)
        elsewhere = await self._services.transcripts.elsewhere()
        return [(chat, chat.id in elsewhere or self._sessions.busy(chat.id)) for chat in chats]

    @property
    def working(self) -> int:
        """In how many chats a turn goes on or waits here."""
        return self._sessions.working

    async def busy(self, chat: Chat) -> bool:
        """Whether a turn of a chat goes on or waits, here or in another server."""
        busy = self._sessions.busy(chat.id)
        return busy or chat.id in await self._services.transcripts.elsewhere()

    async def get(self, user: str, chat_id: str) -> Chat:
        """One of the user's chats.

        Raises:
            ChatNotFound.
        """
        return await self._services.transcripts.get(user, chat_id)

    async def events(self, user: str, chat_id: str, after: int = 0) -> list[Event]:
        """What happened in a chat so far.

        Raises:
            ChatNotFound.
        """
        chat = await self.get(user, chat_id)
        await self._sessions.saved(chat.id)
        return await self._services.transcripts.events(chat.id, after)

    async def page(self, user: str, chat_id: str, after: int = 0) -> tuple[list[Event], bool]:
        """The first events after one, of about `PAGE_BYTES`, and whether more are there.

        Raises:
            ChatNotFound.
        """
        chat = await self.get(user, chat_id)
        await self._sessions.saved(chat.id)
        transcripts = self._services.transcripts
        events = await transcripts.page(chat.id, after)
        return events, bool(events) and events[-1].id < await transcripts.last(chat.id)

    async def follow(self, user: str, chat_id: str, after: int = 0) -> AsyncIterator[Event]:
        """What happens in a chat after an event, until it is deleted or the server ends.

        Who follows takes no place among the chats that are answered.

        Raises:
            ChatNotFound.
            InvalidArguments: no event of that number has happened.
        """
        log = await self._sessions.follow(await self.get(user, chat_id))
        if not 0 <= after <= log.last:
            raise InvalidArguments(
                f"{after} is no event's number of this chat.",
                hint="Leave Last-Event-ID out to be told everything.",
            )
        return log.after(after)

    async def stop(self, user: str, chat_id: str, turn: str | None = None) -> bool:
        """Stops the turn that goes on and those that wait, or one of them; whether there were any.

        Raises:
            ChatNotFound.
            ChatElsewhere: they are another server's.
        """
        return await self._sessions.stop(await self.get(user, chat_id), turn)

    async def rename(self, user: str, chat_id: str, title: str) -> None:
        """Gives a chat another title.

        Raises:
            ChatNotFound.
        """
        chat = await self.get(user, chat_id)
        await self._services.transcripts.rename(chat, storable(title)[:MAX_TITLE])

    async def delete(self, user: str, chat_id: str) -> None:
        """Ends a chat and removes its transcript; what it did in notebooks stays.

        Raises:
            ChatNotFound, ChatElsewhere.
        """
        await self._remove(await self.get(user, chat_id))

    async def take_back(
        self,
        user: str,
        chat_id: str,
        *,
        turn: str,
        cells: frozenset[str] | None = None,
        onwards: bool = False,
    ) -> list[TakenBack]:
        """Undo what a turn changed, in each notebook all or none, where nobody has worked on since.

        Args:
            user: Whose chat.
            chat_id: The chat.
            turn: The turn.
            cells: Only the changes of these cells, by their keys; None for all.
            onwards: What the chat changed after that turn as well.

        Raises:
            ChatNotFound.
            NothingToUndo: The turn changed nothing that stands.
            ToolError: Whatever a notebook refuses.
        """
        caller = _caller(await self.get(user, chat_id))
        workspace = self._services.workspace
        entries = await workspace.journal.undoable(caller, None, turn=turn)
        if entries and onwards:
            entries = await workspace.journal.undoable(caller, None, since=entries[-1].id - 1)
        return await taking_back.take_back(workspace, caller, entries, cells=cells, of="of a turn")

    async def standing(self, user: str, chat_id: str) -> list[Touched]:
        """The cells that a chat changed and nobody has taken back, the newest first.

        Raises:
            ChatNotFound.
        """
        chat = await self.get(user, chat_id)
        return await self._services.workspace.journal.touched(_caller(chat))

    async def renamed(self, old: str, new: str) -> None:
        """A notebook, or a folder above some, has another path now."""
        await self._services.transcripts.renamed(old, new)

    async def close(self) -> None:
        """Ends all sessions; transcripts are complete then. A second time changes nothing."""
        await self._sessions.close()

    async def _known(self, user: str, request: ChatRequest, notebook: str | None) -> Chat | None:
        """The chat that a message belongs to; None for a new one."""
        if request.chat is not None:
            return await self.get(user, request.chat)
        chats = await self._services.transcripts.list(user) if request.latest else []
        return next((chat for chat in chats if chat.notebook == notebook), None)

    async def _replace(self, chat: Chat, turn: str, message: Message) -> StartedTurn:
        """Sends a message that takes the place of a turn and of those after it.

        They are stopped, where the message can be sent.

        Raises:
            InvalidArguments: the chat has no such turn, or another one has taken its place.
            ChatNotFound, ChatElsewhere, LimitReached.
        """
        # Of two that would take the place of one, the second finds it taken.
        async with self._replacing.setdefault(chat.id, asyncio.Lock()):
            await self._sessions.saved(chat.id)
            turns = await self._services.transcripts.turns(chat.id)
            if turn not in turns:
                raise InvalidArguments(
                    f"The chat has no turn `{turn[:80]}` to take the place of.",
                    hint="Another message may have taken it: look at the chat again.",
                )
            replaced = tuple(turns[turns.index(turn) :])
            session = await self._sessions.open(chat, message.notebook)
            for each in replaced:
                await session.stop(each)
            return await self._send(chat, replace(message, replaces=replaced))

    async def _send(
        self, chat: Chat, message: Message, answer: PlanSettled | None = None
    ) -> StartedTurn:
        if await self._services.transcripts.size(chat.id) > MAX_CHAT:
            raise LimitReached(
                f"This chat has more than {MAX_CHAT // 1_000_000} MB.", hint="Begin another chat."
            )
        session = await self._sessions.open(chat, message.notebook)
        # From here on nothing waits: the session may be let go whenever it is idle.
        before = session.log.last
        try:
            turn = session.send(message, answer)
        except ToolError:
            self._sessions.on_idle(session)
            raise
        return StartedTurn(chat.id, turn, session.log.after(before, turn=turn))

    async def _remove(self, chat: Chat) -> None:
        """Ends a chat, and removes all that is kept of it."""
        chat = await self._sessions.remove(chat)
        if chat.session is not None:
            await self._services.backend.forget(chat.session)
        self._services.workspace.forget(_caller(chat))

    async def _model(self, asked: str | None, *, usual: str = "") -> str:
        """The model that answers.

        Args:
            asked: One that has to be there.
            usual: The one to take where none is asked for, if it is still there.

        Raises:
            NoModel: none is connected, or none of that name.
            FolderNotTrusted: the only key is in a folder that is not trusted.
        """
        provider = await self._services.backend.provider()
        model = asked or (usual if usual in provider.models else provider.model)
        if model not in provider.models:
            raise NoModel(
                f"There is no model `{model[:80]}` here.",
                hint=f"Choose among: {', '.join(provider.models)}.",
            )
        return model


def _caller(chat: Chat) -> Caller:
    """A chat as a caller, in no turn: what a person does with its changes needs no approval."""
    return Caller(user=chat.user, key=chat.id, face="chat", name=chat.user)


def storable(text: str) -> str:
    """The text as SQLite can hold it: half a surrogate pair becomes a question mark."""
    return text.encode(errors="replace").decode()

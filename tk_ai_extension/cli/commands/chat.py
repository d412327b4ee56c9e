"""`nb chat`: chat with Claude in a terminal."""

from __future__ import annotations

import argparse
import asyncio
import json
import re
from collections.abc import AsyncIterator, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from tk_ai_extension.cli import wire
from tk_ai_extension.cli.chat_client import ChatClient, Json
from tk_ai_extension.cli.chat_printer import ChatPrinter
from tk_ai_extension.cli.commands.command import Command
from tk_ai_extension.cli.parsing import STDIN, WrongCall, add_notebook
from tk_ai_extension.cli.session import UNREACHABLE_CODES, Session
from tk_ai_extension.model.agent_errors import ChatNotFound
from tk_ai_extension.model.agent_variables import FOR_CHATS
from tk_ai_extension.model.callers import Mode
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.tools.context import Result
from tk_ai_extension.workspace.permissions import MAX_MESSAGE, MODES

WORDS: Mapping[str, str] = {"yes": "once", "chat": "chat", "always": "notebook", "no": "deny"}
"""Answers to a permission request, by the word or its first letter; `always` means in this notebook."""

HELP = "/mode plan|ask|edit|auto   /new   /quit   Ctrl-C stops Claude\n"


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "message", nargs="*", help="the message; - reads standard input (default: a dialogue)"
    )
    add_notebook(parser, by_place=False, help="the notebook (default: the current one)")
    parser.add_argument(
        "--mode",
        choices=MODES,
        default="ask",
        help="the permission mode: what runs without approval (default: ask)",
    )
    parser.add_argument("--model", help="the model to use")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--new", action="store_true", help="start a new chat")
    which.add_argument("--resume", metavar="CHAT", help="continue the chat with this id or prefix")
    which.add_argument("--list", action="store_true", help="list the chats")
    which.add_argument("--show", metavar="CHAT", help="show a chat")


class ChatList(Result):
    """List of chats, most recently used first."""

    chats: list[dict[str, Any]]

    def as_text(self) -> str:
        """Return one line per chat."""
        lines = [
            f"{chat['id'][:8]}  {chat['title']}"
            + (f"  ({chat['notebook']})" if chat["notebook"] else "")
            + ("  busy" if chat["busy"] else "")
            for chat in self.chats
        ]
        return "\n".join(lines) or "There are no chats."


async def _chat(session: Session, args: argparse.Namespace) -> int:
    client, notebook = await _place(session, args.notebook)
    if args.list:
        return session.finish(ChatList(chats=await client.list()))
    if args.show is not None:
        return await _show(session, client, args.show)
    chat = None if args.resume is None else (await _found(client, args.resume))["id"]
    dialogue = Dialogue(session, client, notebook, args.mode, args.model, chat, fresh=args.new)
    message: str = " ".join(args.message)
    if message == STDIN:
        message = await session.terminal.read()
    if message:
        return await dialogue.send(message)
    if session.options.json or not session.terminal.info.tty:
        raise WrongCall(
            'nb chat: the message is empty: nb chat "plot the prices", or - to read standard input\n'
        )
    return await dialogue.run()


async def _place(session: Session, given: str | None) -> tuple[ChatClient, str | None]:
    """Return the client of the chats, and the path of the notebook.

    Raises:
        OpenElsewhere: the notebook and its chats belong to another server.
        AgentUnavailable: no server runs.
    """
    context = session.context
    current = context.workspace.notebooks.current(session.caller)
    if given is not None:
        given = session.located({"notebook": given})["notebook"]
    named = given if given is not None else current.path if current else None
    path = None
    if named is not None:
        path = context.workspace.path(session.caller, named, tool="nb chat")
    await context.check_owner(path or "")
    environment = session.terminal.info.env
    models = {name: environment[name] for name in FOR_CHATS if name in environment}
    return await context.chats(context.user, models), path


async def _found(client: ChatClient, beginning: str) -> Json:
    """Return the chat whose id starts with this.

    Raises:
        ChatNotFound: there is none, or more than one.
    """
    found = [chat for chat in await client.list() if chat["id"].startswith(beginning)]
    if len(found) != 1:
        raise ChatNotFound(
            f"{len(found) or 'No'} chats have an id that starts with `{beginning[:80]}`.",
            hint="`nb chat --list` lists them.",
        )
    return found[0]


async def _show(session: Session, client: ChatClient, beginning: str) -> int:
    chat = (await _found(client, beginning))["id"]
    if session.options.json:
        session.terminal.out(json.dumps(await client.read(chat)) + "\n")
    else:
        session.terminal.out(await client.export(chat))
    return wire.OK


@dataclass
class Dialogue:
    """A dialogue in a chat.

    Attributes:
        session: The command.
        client: Client of the chats.
        notebook: Path of the notebook.
        mode: The permission mode.
        model: The model that answers; None for the default.
        chat: The chat; None before the first message.
        fresh: Whether to start a new chat instead of continuing the notebook's.
    """

    session: Session
    client: ChatClient
    notebook: str | None
    mode: Mode
    model: str | None = None
    chat: str | None = None
    fresh: bool = False
    _printer: ChatPrinter = field(init=False)
    _plan: Json | None = None

    def __post_init__(self) -> None:
        terminal = self.session.terminal
        coloured = terminal.info.tty and "NO_COLOR" not in terminal.info.env
        self._printer = ChatPrinter(terminal, coloured=coloured, as_json=self.session.options.json)

    async def run(self) -> int:
        """Read and send messages until the person quits; return the exit status."""
        terminal = self.session.terminal
        terminal.err(HELP)
        while (said := await self._read_line(f"{self.mode}> ")) is not None:
            words = said.split()
            match words:
                case []:
                    continue
                case ["/quit" | "/exit"]:
                    break
                case ["/new"]:
                    self.chat, self.fresh = None, True
                case ["/mode", mode] if mode in MODES:
                    self.mode = mode
                case [command, *_] if command.startswith("/"):
                    terminal.err(HELP)
                case _:
                    await self.send(said)
        return wire.OK

    async def send(self, message: str) -> int:
        """Send a message and print the turn; return the exit status."""
        body: Json = {"message": message, "mode": self.mode, "model": self.model}
        if self.chat is not None:
            body["chat"] = self.chat
        else:
            body["latest"] = not self.fresh
        status = await self._turn(self.client.send({**body, "notebook": self.notebook}))
        while self._plan is not None and self.chat is not None:
            answer = await self._about_plan(self._plan)
            if answer is None:
                break
            status = await self._turn(self.client.approve(self.chat, answer))
        return status

    async def _turn(self, events: AsyncIterator[Json]) -> int:
        """Print a turn to its end; return the exit status."""
        self._plan = None
        status = wire.OK
        # Clear a Ctrl-C that arrived too late for the previous turn.
        self.session.terminal.interrupted.clear()
        try:
            while (event := await self._unless_stopped(anext(events, None))) is not None:
                match event["kind"]:
                    case "message":
                        self.chat = event["chat"]
                    case "permission":
                        self._printer.print_event(event)
                        await self._ask_permission(event)
                        continue
                    case "plan":
                        self._plan = event
                    case "error":
                        status = self._refuse(event["error"])
                        continue
                    case "done" if event["end"] == "stopped":
                        status = wire.INTERRUPTED
                        self._printer.note("Stopped.")
                    case _:
                        pass
                self._printer.print_event(event)
        except ToolError as error:
            return self.session.refuse(error)
        return status

    def _refuse(self, error: Mapping[str, Any]) -> int:
        if self.session.options.json:
            self.session.terminal.out(json.dumps({"error": error}) + "\n")
        else:
            self._printer.note(f"Error [{error['code']}]: {error['message']}\n{error['hint']}")
        return wire.UNREACHABLE if error["code"] in UNREACHABLE_CODES else wire.REFUSED

    async def _ask_permission(self, event: Json) -> None:
        """Ask the person to approve a call; deny it if nobody can be asked.

        Text after ``no`` is a message for Claude.
        """
        self._printer.preview(event)
        choices = {word: answer for word, answer in WORDS.items() if answer in event["answers"]}
        prompt = f"{event['tool']}: {', '.join(choices)}? "
        answer, message = None, ""
        while answer is None and (said := await self._read_line(prompt)) is not None:
            word, message = first_word(said)
            answer = next((choices[one] for one in choices if word in (one, one[0])), None)
            if message and answer != "deny":
                answer = None
        if answer is None:
            answer, message = "deny", ""
            self._printer.note(
                "Denied: nobody can be asked here. `--mode edit` or `auto` needs fewer approvals."
            )
        try:
            await self.client.answer(event["id"], answer, message)
        except ToolError as error:
            if error.code != "not_found":
                raise
            self._printer.note("This request was answered elsewhere.")

    async def _about_plan(self, plan: Json) -> Json | None:
        """Ask for the answer to a plan; None if there is none."""
        choices = {"yes": "edit", "ask": "ask", "auto": "auto", "no": ""}
        mode = await self._chosen(
            "Carry it out: yes (ask before code runs), ask (each time), auto, no? ", choices
        )
        if not mode:
            return None
        return {"plan": plan["turn"], "answer": "approve", "mode": mode}

    async def _chosen(self, prompt: str, choices: Mapping[str, str]) -> str | None:
        """Ask the person for a choice; None if there is none."""
        while (said := await self._read_line(prompt)) is not None:
            for word, choice in choices.items():
                if said.strip().lower() in (word, word[0]):
                    return choice
        return None

    async def _read_line(self, prompt: str) -> str | None:
        """Read a line from the person; None at the end of input, or without a terminal."""
        terminal = self.session.terminal
        if self.session.options.json or not terminal.info.tty:
            return None
        return await terminal.ask(prompt)

    async def _unless_stopped(self, event: Coroutine[Any, Any, Json | None]) -> Json | None:
        """Return the next event; Ctrl-C stops the turn, whose last events follow."""
        terminal = self.session.terminal
        receiving = asyncio.create_task(event)
        interrupted = asyncio.create_task(terminal.interrupted.wait())
        try:
            await asyncio.wait((receiving, interrupted), return_when=asyncio.FIRST_COMPLETED)
            if terminal.interrupted.is_set() and self.chat is not None:
                terminal.interrupted.clear()
                await self.client.stop(self.chat)
            return await receiving
        finally:
            receiving.cancel()
            interrupted.cancel()


def first_word(said: str) -> tuple[str, str]:
    """Split an answer into its first word, in lower case, and the message after it."""
    match = re.match(r"\s*(\w*)[\s,:;.-]*(.*)", said, re.DOTALL)
    word, message = match.groups() if match else ("", "")
    return word.lower(), message.strip()[:MAX_MESSAGE]


COMMANDS = (
    Command(
        "chat",
        "Chat with Claude, who works in the notebook: one message, or a dialogue.",
        _configure,
        _chat,
        (
            'nb chat "why is the last cell slow?"',
            'nb chat -n sales.ipynb --mode auto "plot the prices"',
            "nb chat                             # a dialogue, in the open notebook's chat",
            "nb chat --list; nb chat --resume 3f9a",
        ),
        answers=(ChatList,),
    ),
)

"""`nb approve`: list pending requests and answer them."""

from __future__ import annotations

import argparse
from typing import cast, get_args

from tk_ai_extension.cli.commands.command import Command
from tk_ai_extension.cli.parsing import WrongCall
from tk_ai_extension.cli.permission_results import Answered, PendingRequests
from tk_ai_extension.cli.session import Session
from tk_ai_extension.model.errors import NotFound
from tk_ai_extension.workspace.permissions import Answer


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "request", nargs="?", help="the request's id (default: list pending requests)"
    )
    answer = parser.add_mutually_exclusive_group()
    answer.add_argument(
        "--for",
        dest="answer",
        choices=[each for each in get_args(Answer) if each != "deny"],
        help="approve this call (default), all calls with that effect in this session, or in this "
        "notebook; with _tool only those of the same tool",
    )
    answer.add_argument(
        "--deny",
        nargs="?",
        const="",
        metavar="MESSAGE",
        help="deny it, with an optional message for the agent",
    )


async def _approve(session: Session, args: argparse.Namespace) -> int:
    policy, user = session.context.workspace.policy, session.caller.user
    requests = policy.pending(user)
    if args.request is None:
        if args.answer is not None or args.deny is not None:
            raise WrongCall("nb approve: name the request to answer\n")
        return session.finish(PendingRequests.of(requests))
    request = next((one for one in requests if one.id == args.request), None)
    if request is None:
        raise NotFound(
            f"No request `{args.request}` is pending.",
            hint="`nb approve` lists pending requests; this one was answered or has expired.",
        )
    answer = cast("Answer", args.answer or "once") if args.deny is None else "deny"
    policy.answer(user, request.id, answer, args.deny or "")
    return session.finish(
        Answered(
            id=request.id,
            answer=answer,
            tool=request.tool,
            notebook=request.notebook,
            author=request.caller.author,
        )
    )


COMMANDS = (
    Command(
        "approve",
        "Approve or deny an agent's requests; list pending ones with their code or diff.",
        _configure,
        _approve,
        (
            "nb approve                          # pending requests and what they would do",
            "nb approve 9c1f0a55e3d2b784         # this call, once",
            "nb approve 9c1f0a55e3d2b784 --for notebook",
            "nb approve 9c1f0a55e3d2b784 --deny 'use the cached data instead'",
        ),
        answers=(PendingRequests, Answered),
    ),
)

"""Errors of chats, of agents and of the models behind them."""

from __future__ import annotations

from tk_ai_extension.model.errors import ToolError


class ChatNotFound(ToolError):
    """No such chat of this user."""

    code = "chat_not_found"
    status = 404
    default_hint = "List your chats for those that exist, or leave the id out to begin one."


class ChatElsewhere(ToolError):
    """Another server of the same root folder answers in this chat just now."""

    code = "chat_elsewhere"
    status = 409
    retryable = True
    default_hint = "Wait until its turn there has ended, or go on with the chat there."


class PlanNotFound(ToolError):
    """No plan of that turn waits for an answer in this chat."""

    code = "plan_not_found"
    status = 404
    default_hint = "It was answered already, or another message was sent since. Ask for a new plan."


class CallStopped(ToolError):
    """The turn that the call belongs to was stopped, or ended before the call did."""

    code = "stopped"
    status = 409
    default_hint = "Wait for what the user says next."


class InvalidTurnCredential(ToolError):
    """The credential of a turn is unknown, expired, or another user's."""

    code = "invalid_turn_credential"
    status = 401
    default_hint = "Wait for the next message of the user: its turn comes with a credential."


class NoModel(ToolError):
    """No model is connected, or none of that name."""

    code = "no_model"
    status = 409
    default_hint = "Connect a model: set ANTHROPIC_API_KEY where the server starts."


class FolderNotTrusted(ToolError):
    """The folder's file of keys is not used before the user trusts the folder."""

    code = "folder_not_trusted"
    status = 409
    default_hint = (
        "Read the file, then trust the folder: in the panel, or by `nb chat --trust-folder`."
    )


class ModelUnauthorized(ToolError):
    """The model's server does not accept the key."""

    code = "model_unauthorized"
    status = 502
    default_hint = "Check the key that the server was started with, and start it again."


class ModelBusy(ToolError):
    """The model's server is overloaded, or has had too many requests."""

    code = "model_busy"
    status = 503
    retryable = True
    default_hint = "Wait a little, then send the message again. What was done stays done."


class ModelFailed(ToolError):
    """The model's server failed, or cannot be reached."""

    code = "model_failed"
    status = 502
    retryable = True
    default_hint = "Send the message again. What was done stays done."


class ModelSilent(ToolError):
    """The model's server took the request and said nothing for too long."""

    code = "model_silent"
    status = 504
    retryable = True
    default_hint = "Send the message again, or raise TkAIExtensionApp.chat_silence."


class AgentDied(ToolError):
    """Claude's own process ended; kernels and notebooks are untouched."""

    code = "agent_died"
    status = 502
    retryable = True
    default_hint = "Send the message again: the chat goes on where it was."


class AgentUnavailable(ToolError):
    """Claude's own process cannot be started on this machine."""

    code = "agent_unavailable"
    status = 501
    default_hint = "Reinstall claude-agent-sdk, or name a `claude` in TkAIExtensionApp.chat_cli."

"""Errors of chats, agents and model providers."""

from __future__ import annotations

from tk_ai_extension.model.errors import ToolError


class ChatNotFound(ToolError):
    """The user has no such chat."""

    code = "chat_not_found"
    status = 404
    default_hint = "List your chats, or omit the id to start a new one."


class ChatRunningElsewhere(ToolError):
    """Another server of the same root folder is running a turn of this chat."""

    code = "chat_elsewhere"
    status = 409
    retryable = True
    default_hint = "Wait until that turn ends, or continue the chat on that server."


class CallStopped(ToolError):
    """The turn of this call has ended, or a newer request for code replaced this one."""

    code = "stopped"
    status = 409
    default_hint = "Wait for the user's next message."


class NoModel(ToolError):
    """No model is connected, or there is no model of that name."""

    code = "no_model"
    status = 409
    default_hint = (
        "Connect a model in the panel, or set ANTHROPIC_API_KEY in the server's environment."
    )


class ModelUnauthorized(ToolError):
    """The model provider rejected the key."""

    code = "model_unauthorized"
    status = 502
    default_hint = (
        "Connect the model again in the panel, or correct the key in the server's environment."
    )


class ModelFailed(ToolError):
    """The model provider failed or cannot be reached."""

    code = "model_failed"
    status = 502
    retryable = True
    default_hint = "Send the message again. Completed changes are kept."


class AgentDied(ToolError):
    """Claude's process ended. Kernels and notebooks are not affected."""

    code = "agent_died"
    status = 502
    retryable = True
    default_hint = "Send the message again. The chat continues where it stopped."


class AgentUnavailable(ToolError):
    """Claude's process cannot be started on this machine."""

    code = "agent_unavailable"
    status = 501
    default_hint = (
        "Reinstall claude-agent-sdk, or set TkAIExtensionApp.chat_cli to a `claude` program."
    )

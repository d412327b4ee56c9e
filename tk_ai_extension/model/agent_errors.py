"""Errors of chats, agents and model providers."""

from __future__ import annotations

from tk_ai_extension.model.errors import ToolError


class ChatNotFound(ToolError):
    """The user has no such chat."""

    code = "chat_not_found"
    status = 404
    default_hint = "List your chats, or omit the id to start a new one."


class ChatElsewhere(ToolError):
    """Another server of the same root folder is running a turn of this chat."""

    code = "chat_elsewhere"
    status = 409
    retryable = True
    default_hint = "Wait until that turn ends, or continue the chat on that server."


class PlanNotFound(ToolError):
    """The chat has no pending plan of that turn."""

    code = "plan_not_found"
    status = 404
    default_hint = "It was answered, or another message was sent since. Ask for a new plan."


class CallStopped(ToolError):
    """The turn of this call was stopped, or ended before the call did."""

    code = "stopped"
    status = 409
    default_hint = "Wait for the user's next message."


class InvalidTurnCredential(ToolError):
    """The credential of a turn is unknown, expired, or belongs to another user."""

    code = "invalid_turn_credential"
    status = 401
    default_hint = "Wait for the user's next message. Its turn comes with a new credential."


class NoModel(ToolError):
    """No model is connected, or there is no model of that name."""

    code = "no_model"
    status = 409
    default_hint = "Set ANTHROPIC_API_KEY in the server's environment, then restart the server."


class NoDirectModel(ToolError):
    """The connected model is reached by Claude's process only, which is too slow to complete code."""

    code = "no_direct_model"
    status = 409
    default_hint = (
        "Set ANTHROPIC_API_KEY, or ANTHROPIC_BASE_URL and ANTHROPIC_MODEL, in the environment of the "
        "server."
    )


class CompletionReplaced(ToolError):
    """A newer request for code from the same page replaced this one."""

    code = "completion_replaced"
    status = 409
    default_hint = "Use the answer to the newer request."


class FolderNotTrusted(ToolError):
    """The folder's file of keys is not used until the user trusts the folder."""

    code = "folder_not_trusted"
    status = 409
    default_hint = (
        "Check the file, then trust the folder in the panel or with `nb chat --trust-folder`."
    )


class ModelUnauthorized(ToolError):
    """The model provider rejected the key."""

    code = "model_unauthorized"
    status = 502
    default_hint = "Check the key in the server's environment, then restart the server."


class ModelBusy(ToolError):
    """The model provider is overloaded, or its rate limit is reached."""

    code = "model_busy"
    status = 503
    retryable = True
    default_hint = "Wait a moment, then send the message again. Completed changes are kept."


class ModelFailed(ToolError):
    """The model provider failed or cannot be reached."""

    code = "model_failed"
    status = 502
    retryable = True
    default_hint = "Send the message again. Completed changes are kept."


class ModelSilent(ToolError):
    """The model provider did not respond to a request in time."""

    code = "model_silent"
    status = 504
    retryable = True
    default_hint = "Send the message again, or increase TkAIExtensionApp.chat_silence."


class ConnectForbidden(ToolError):
    """Connecting a model is switched off here, or reserved for the user who runs the server."""

    code = "connect_forbidden"
    status = 403
    default_hint = "Ask your administrator to connect a model."


class ServersForbidden(ToolError):
    """MCP servers of one's own are switched off here, or reserved for the user who runs the server."""

    code = "servers_forbidden"
    status = 403
    default_hint = "Ask your administrator."


class ServerFailed(ToolError):
    """An MCP server of the user's did not start, has ended, or did not answer a call."""

    code = "server_failed"
    status = 502
    default_hint = "Go on without it. The user sees their MCP servers in Chat Setup."


class InvalidConnection(ToolError):
    """A field of the connection is missing or invalid."""

    code = "invalid_connection"
    status = 422
    default_hint = "Correct the field, then try again."


class KeyRefused(ToolError):
    """The provider refused the key or token that was entered."""

    code = "key_refused"
    status = 422
    default_hint = "Copy the whole key or token again, and check that it belongs to this provider."


class NoCredit(ToolError):
    """The provider accepted the key, but its account has no credit."""

    code = "no_credit"
    status = 422
    default_hint = "Add credit in the provider's billing settings, then try again."


class WrongAddress(ToolError):
    """There is no Messages API at the address that was entered."""

    code = "wrong_address"
    status = 422
    default_hint = "Enter the endpoint's base URL, without /v1."


class ProviderUnreachable(ToolError):
    """The provider cannot be reached from the server."""

    code = "provider_unreachable"
    status = 502
    retryable = True
    default_hint = "Check the address and the network of the server, and its HTTPS_PROXY."


class ProviderTimeout(ToolError):
    """The provider did not answer the test in time."""

    code = "provider_timeout"
    status = 504
    retryable = True
    default_hint = "Try again. If it happens again, check the address and the network."


class AgentDied(ToolError):
    """Claude's process ended. Kernels and notebooks are not affected."""

    code = "agent_died"
    status = 502
    retryable = True
    default_hint = "Send the message again. The chat continues where it stopped."


class CannotCompact(ToolError):
    """The chat's agent cannot compact its history."""

    code = "cannot_compact"
    status = 409
    default_hint = "Start another chat."


class AgentUnavailable(ToolError):
    """Claude's process cannot be started on this machine."""

    code = "agent_unavailable"
    status = 501
    default_hint = (
        "Reinstall claude-agent-sdk, or set TkAIExtensionApp.chat_cli to a `claude` program."
    )

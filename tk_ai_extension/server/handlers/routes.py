"""The extension's routes, in one table."""

from __future__ import annotations

from tk_ai_extension.server.handlers.base_handler import NotFoundHandler, TkAIHandler
from tk_ai_extension.server.handlers.change_review import (
    ChangesHandler,
    ChangesKeepHandler,
    ChangesUndoHandler,
)
from tk_ai_extension.server.handlers.chat import (
    ChatAnswerHandler,
    ChatEventsHandler,
    ChatExportHandler,
    ChatHandler,
    ChatMessageHandler,
    ChatRestoreHandler,
    ChatsHandler,
    ChatStopHandler,
    ChatTurnChangesHandler,
    ChatUndoHandler,
    ModelsHandler,
)
from tk_ai_extension.server.handlers.chat_setup import ChatSetupHandler, ModelConnectionHandler
from tk_ai_extension.server.handlers.code_assistant import CellEditHandler, CodeCompletionHandler
from tk_ai_extension.server.handlers.mcp import McpHandler
from tk_ai_extension.server.handlers.permissions import (
    PermissionHandler,
    PermissionsHandler,
    StandingApprovalHandler,
    StandingApprovalsHandler,
)
from tk_ai_extension.server.handlers.tools import (
    ArtifactHandler,
    HealthHandler,
    OpenAPIHandler,
    SaveHandler,
    ToolHandler,
    ToolsHandler,
)

ROUTES: tuple[tuple[str, type[TkAIHandler]], ...] = (
    (r"api/tk-ai/mcp", McpHandler),
    (r"api/tk-ai/mcp/chat", ChatMessageHandler),
    (r"api/tk-ai/chats", ChatsHandler),
    (r"api/tk-ai/chats/([^/]+)", ChatHandler),
    (r"api/tk-ai/chats/([^/]+)/events", ChatEventsHandler),
    (r"api/tk-ai/chats/([^/]+)/changes/([^/]+)", ChatTurnChangesHandler),
    (r"api/tk-ai/chats/([^/]+)/restore", ChatRestoreHandler),
    (r"api/tk-ai/chats/([^/]+)/answer", ChatAnswerHandler),
    (r"api/tk-ai/chats/([^/]+)/stop", ChatStopHandler),
    (r"api/tk-ai/chats/([^/]+)/undo", ChatUndoHandler),
    (r"api/tk-ai/chats/([^/]+)/export", ChatExportHandler),
    (r"api/tk-ai/setup", ChatSetupHandler),
    (r"api/tk-ai/code/completion", CodeCompletionHandler),
    (r"api/tk-ai/code/edit", CellEditHandler),
    (r"api/tk-ai/models", ModelsHandler),
    (r"api/tk-ai/connection", ModelConnectionHandler),
    (r"api/tk-ai/health", HealthHandler),
    (r"api/tk-ai/tools", ToolsHandler),
    (r"api/tk-ai/tools/([^/]+)", ToolHandler),
    (r"api/tk-ai/save", SaveHandler),
    (r"api/tk-ai/artifacts/([^/]+)", ArtifactHandler),
    (r"api/tk-ai/changes", ChangesHandler),
    (r"api/tk-ai/changes/keep", ChangesKeepHandler),
    (r"api/tk-ai/changes/undo", ChangesUndoHandler),
    (r"api/tk-ai/permissions", PermissionsHandler),
    (r"api/tk-ai/approvals", StandingApprovalsHandler),
    (r"api/tk-ai/approvals/([^/]+)", StandingApprovalHandler),
    (r"api/tk-ai/permissions/([^/]+)", PermissionHandler),
    (r"api/tk-ai/openapi\.json", OpenAPIHandler),
    (r"api/tk-ai(?:/.*)?", NotFoundHandler),
)
"""Patterns below ``base_url`` and their handlers."""

"""The extension's routes, in one table."""

from __future__ import annotations

from tk_ai_extension.server.handlers.base_handler import NotFoundHandler, TkAIHandler
from tk_ai_extension.server.handlers.changes import (
    ChangesHandler,
    ChangesKeepHandler,
    ChangesUndoHandler,
)
from tk_ai_extension.server.handlers.chat import (
    ChatAnswerHandler,
    ChatEventsHandler,
    ChatExportHandler,
    ChatHandler,
    ChatRestoreHandler,
    ChatsHandler,
    ChatStopHandler,
    ChatTurnChangesHandler,
    ChatUndoHandler,
    MessageHandler,
    ModelsHandler,
)
from tk_ai_extension.server.handlers.chat_setup import (
    ChatSetupHandler,
    ConnectionHandler,
)
from tk_ai_extension.server.handlers.code_assistant import CompletionHandler, EditHandler
from tk_ai_extension.server.handlers.mcp import McpHandler
from tk_ai_extension.server.handlers.permissions import (
    PermissionHandler,
    PermissionsHandler,
    StandingApprovalHandler,
    StandingHandler,
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
    (r"api/tk-ai/mcp/chat", MessageHandler),
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
    (r"api/tk-ai/code/completion", CompletionHandler),
    (r"api/tk-ai/code/edit", EditHandler),
    (r"api/tk-ai/models", ModelsHandler),
    (r"api/tk-ai/connection", ConnectionHandler),
    (r"api/tk-ai/health", HealthHandler),
    (r"api/tk-ai/tools", ToolsHandler),
    (r"api/tk-ai/tools/([^/]+)", ToolHandler),
    (r"api/tk-ai/save", SaveHandler),
    (r"api/tk-ai/artifacts/([^/]+)", ArtifactHandler),
    (r"api/tk-ai/changes", ChangesHandler),
    (r"api/tk-ai/changes/keep", ChangesKeepHandler),
    (r"api/tk-ai/changes/undo", ChangesUndoHandler),
    (r"api/tk-ai/permissions", PermissionsHandler),
    (r"api/tk-ai/approvals", StandingHandler),
    (r"api/tk-ai/approvals/([^/]+)", StandingApprovalHandler),
    (r"api/tk-ai/permissions/([^/]+)", PermissionHandler),
    (r"api/tk-ai/openapi\.json", OpenAPIHandler),
    (r"api/tk-ai(?:/.*)?", NotFoundHandler),
)
"""Patterns below ``base_url`` and their handlers."""

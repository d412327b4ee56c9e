"""Environment variables of the agents. Add those of a new agent here."""

SECRETS = (
    *(
        "ANTHROPIC_*",
        "CLAUDE_*",
        "CODEX_*",
        "COPILOT_*",
        "GOOSE_*",
        "KIRO_*",
        "OPENCODE_*",
        "VIBE_*",
    ),
)
"""Patterns (`fnmatch`) of variables that kernels do not get: those that only agents use. Keys of providers
that notebooks use as well, such as ``OPENAI_API_KEY``, stay: ``kernel_env_exclude`` removes them."""

FOR_CHATS = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_MODEL",
    "CLAUDE_CODE_OAUTH_TOKEN",
)
"""Variables that `nb chat` passes from its environment to the project's server, which passes them only
to the agent's process."""

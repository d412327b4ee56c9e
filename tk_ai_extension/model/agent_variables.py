"""Environment variables of the agents: a new agent's are named here and nowhere else."""

SECRETS = ("ANTHROPIC_*", "CLAUDE_*")
"""Patterns (`fnmatch`) of variables that no kernel gets."""

FOR_CHATS = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_MODEL",
    "CLAUDE_CODE_OAUTH_TOKEN",
)
"""What `nb chat` passes on of its own environment to the project's server: where the model is. Only the
agent's process gets it."""

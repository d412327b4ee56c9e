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
    "AWS_BEARER_TOKEN_BEDROCK",
    *("JPY_API_TOKEN", "JUPYTER_TOKEN"),
)
"""Patterns (`fnmatch`) of variables that kernels do not get: those that only agents and models use, and
the tokens with which code could call the server as its user and approve its requests.
(``JPY_API_TOKEN`` is the Hub's token, by the name of old versions; ``JUPYTERHUB_API_TOKEN`` stays for
notebooks that call the Hub.) Keys of providers that notebooks use as well, such as ``OPENAI_API_KEY`` and
AWS's credentials, stay: ``kernel_env_exclude`` removes them."""

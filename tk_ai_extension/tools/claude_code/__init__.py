"""The toolset `claude-code`: `NotebookEdit`, with the name and arguments that coding agents know."""

"""The toolset `claude-code`: the notebook tool that coding agents know, by its own name and shape."""

"""Commands beyond a single tool call; every other command is generated from its tool."""

"""The registry as an MCP server.

Nothing here is imported before the server is up: the ``mcp`` package alone takes half a second.
"""

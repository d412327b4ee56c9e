"""Agents that speak the Agent Client Protocol (ACP) as agents of chats."""

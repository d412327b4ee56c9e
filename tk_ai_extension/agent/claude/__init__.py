"""The Claude Agent SDK as the agent of chats."""

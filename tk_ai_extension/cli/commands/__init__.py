"""The commands that are more than one tool's call; every other tool has its command by itself."""

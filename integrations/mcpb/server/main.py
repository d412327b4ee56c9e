"""Serve MCP for the notebooks of one folder, with the program that the person has installed."""

import os
import sys

os.chdir(os.environ["TK_AI_FOLDER"])
program = os.environ["TK_AI_PROGRAM"]
try:
    os.execvp(program, [program, "mcp"])  # noqa: S606
except FileNotFoundError:
    sys.exit(f"{program} was not found. Install it: pip install tk-ai-extension")

"""Generate what is made of the tools: plug-ins, a bundle, an entry of the MCP registry, the commands of `nb`.

    python scripts/integrations.py

writes `integrations` and the file that `nb` reads instead of the registry; `tests/interop/test_plugin.py`
fails if a file differs from this output.
"""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

from tk_ai_extension._version import __version__
from tk_ai_extension.cli.special_commands import DEFAULT_TOOLS
from tk_ai_extension.mcp.resources import PROMPT_TEMPLATES, PromptTemplate
from tk_ai_extension.mcp.tool_calls import INSTRUCTIONS
from tk_ai_extension.tools.registry import Registry, Tool

TARGET = Path(__file__).parent.parent / "integrations"
"""The folder of all files but one."""

NAME = "tk-ai"
AUTHOR = {"name": "The tk-ai-extension contributors"}
LICENSE = "BSD-3-Clause"
DESCRIPTION = (
    "Work in notebooks that people have open: the same document, the same kernel, live outputs."
)
SERVER = "tk"
"""The name of the MCP server in the agent; it is part of the names of its tools."""
COMMAND = "tk-nb"
"""The program that serves MCP over stdio. Other packages install an `nb`, too."""
COMMANDS = ("explain", "fix", "clean_up")
"""The prompts that Claude Code offers as commands."""

OPEN_NOTEBOOK = (
    "$ARGUMENTS (if nothing is named: the cell or notebook that the person looks at, "
    'use_notebook("active"))'
)

SKILL = """\
---
name: notebooks
description: Read, edit, run and check Jupyter notebooks (.ipynb) with the tools of tk-ai. Use for each task \
that names a notebook, a cell, an output or a kernel.
---

# Notebooks

{instructions}
## Tools

{tools}
"""

LAUNCHER = '''\
"""Serve MCP for the notebooks of one folder, with the program that the person has installed."""

import os
import sys

os.chdir(os.environ["TK_AI_FOLDER"])
program = os.environ["TK_AI_PROGRAM"]
try:
    os.execvp(program, [program, "mcp"])  # noqa: S606
except FileNotFoundError:
    sys.exit(f"{program} was not found. Install it: pip install tk-ai-extension")
'''


def files() -> dict[str, str]:
    """The text of each file, by path below `integrations`."""
    registry = Registry.load(("default",))
    tools = [{"name": tool.name, "description": first_sentence(tool)} for tool in registry]
    plugin = {
        "name": NAME,
        "version": __version__,
        "description": DESCRIPTION,
        "author": AUTHOR,
        "license": LICENSE,
        "keywords": ["jupyter", "notebook"],
    }
    marketplace = {
        "name": "tk-ai-extension",
        "owner": AUTHOR,
        "metadata": {"description": DESCRIPTION},
        "plugins": [{"name": NAME, "source": f"./{NAME}", "description": DESCRIPTION}],
    }
    bundle = {
        "manifest_version": "0.3",
        "name": NAME,
        "display_name": "Jupyter notebooks",
        "version": __version__,
        "description": DESCRIPTION,
        "author": AUTHOR,
        "license": LICENSE,
        "server": {
            "type": "python",
            "entry_point": "server/main.py",
            "mcp_config": {
                "command": "python3",
                "args": ["${__dirname}/server/main.py"],
                "env": {
                    "TK_AI_FOLDER": "${user_config.folder}",
                    "TK_AI_PROGRAM": "${user_config.program}",
                },
            },
        },
        "tools": tools,
        "user_config": {
            "folder": {
                "type": "directory",
                "title": "Folder",
                "description": "The folder with your notebooks",
                "required": True,
            },
            "program": {
                "type": "string",
                "title": "Program",
                "description": f"Where {COMMAND} is: `pip install tk-ai-extension` installs it",
                "default": COMMAND,
                "required": False,
            },
        },
    }
    entry = {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": "io.github.OWNER/tk-ai-extension",
        "title": "Jupyter notebooks",
        "description": "Notebook tools for people and agents: the same document, the same kernel.",
        "version": __version__,
        "remotes": [
            {
                "type": "streamable-http",
                "url": "http://{server}/api/tk-ai/mcp",
                "variables": {
                    "server": {
                        "description": "Host and port of the Jupyter Server",
                        "default": "localhost:8888",
                        "isRequired": True,
                    }
                },
                "headers": [
                    {
                        "name": "Authorization",
                        "description": "The token that `jupyter server list` shows",
                        "value": "Bearer {token}",
                        "isRequired": True,
                        "isSecret": True,
                        "variables": {
                            "token": {
                                "description": "The token",
                                "isRequired": True,
                                "isSecret": True,
                            }
                        },
                    }
                ],
            }
        ],
    }
    listed = "\n".join(f"- `{tool['name']}`: {tool['description']}" for tool in tools)
    written = {
        ".claude-plugin/marketplace.json": as_json(marketplace),
        f"{NAME}/.claude-plugin/plugin.json": as_json(plugin),
        f"{NAME}/.mcp.json": as_json(
            {"mcpServers": {SERVER: {"command": COMMAND, "args": ["mcp"]}}}
        ),
        f"{NAME}/skills/notebooks/SKILL.md": SKILL.format(instructions=INSTRUCTIONS, tools=listed),
        "mcpb/manifest.json": as_json(bundle),
        "mcpb/server/main.py": LAUNCHER,
        "server.json": as_json(entry),
    }
    templates = {template.name: template for template in PROMPT_TEMPLATES}
    for name in COMMANDS:
        path = f"{NAME}/commands/{name.replace('_', '-')}.md"
        written[path] = command_page(templates[name])
    return written


def first_sentence(tool: Tool) -> str:
    """The first sentence of a tool's description."""
    text = " ".join(inspect.cleandoc(tool.function.__doc__ or "").split())
    return re.split(r"(?<=\.)\s", text, maxsplit=1)[0]


def command_page(template: PromptTemplate) -> str:
    """A command of Claude Code: its description, and what the agent reads."""
    hint = "[notebook] [cell]" if template.takes_cell else "[notebook]"
    request = template.request.format(what=OPEN_NOTEBOOK)
    return (
        f"---\ndescription: {json.dumps(template.description)}\nargument-hint: {json.dumps(hint)}\n---\n\n"
        f"{request}\n"
    )


def as_json(value: dict[str, Any]) -> str:
    """The text of a file of JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def commands() -> str:
    """The text of the file with the tools as `nb` describes them."""
    return json.dumps([tool.for_commands() for tool in Registry.load()], separators=(",", ":"))


def main() -> None:
    """Write all files."""
    Path(DEFAULT_TOOLS).write_text(commands())
    for path, text in files().items():
        target = TARGET / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


if __name__ == "__main__":
    main()

"""The settings of JupyterLab's Settings Editor and the keys, from the plug-ins' schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.docs.markdown import code, literal, page, table
from scripts.docs.tools import type_of


def settings_page(folder: Path) -> str:
    """Every setting and key that the schemas in a folder declare."""
    schemas = {
        path.stem: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(folder.glob("*.json"), reverse=True)
    }
    return page(
        "Settings in JupyterLab",
        "*For people who use the panel and the marks in notebooks.*",
        "The Settings Editor shows these. [Configuration](configuration.md) has the server's settings.",
        *(part for name, schema in schemas.items() for part in _section(name, schema)),
    )


def _section(name: str, schema: Mapping[str, Any]) -> list[str]:
    rows = (
        [
            f'<span id="{name}-{key}">{each["title"]}</span>',
            code(key),
            type_of(each),
            literal(each["default"]),
            each["description"],
        ]
        for key, each in schema["properties"].items()
    )
    keys = (
        [", ".join(code(key.replace(" ", "+")) for key in each["keys"]), code(each["command"])]
        for each in schema.get("jupyter.lab.shortcuts", ())
    )
    return [
        f"## {schema['title']} {{ #{name} }}",
        f"{schema['description']} The plug-in is `tk-ai-extension:{name}`.",
        table(["setting", "name", "type", "default", "meaning"], rows),
        table(["keys (`Accel` is Ctrl, or Command on a Mac)", "command"], keys),
    ]

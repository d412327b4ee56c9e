"""The settings, from the extension's traits, and the fixed bounds, from the constants that hold them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from traitlets import TraitType
from traitlets.config import Configurable

from scripts.docs.markdown import code, docstrings, page, sentence, table
from tk_ai_extension.server.settings import ExtensionSettings

BOUNDS = (
    ("workspace.execution_service", "MAX_ACTIVE"),
    ("workspace.runs", "MAX_WAITING"),
    ("workspace.runs", "MAX_WAITING_PER_CALLER"),
    ("workspace.execution_service", "MAX_KEPT"),
    ("workspace.workspace", "MAX_CALLERS"),
    ("workspace.workspace", "MAX_NOTEBOOKS"),
    ("notebooks.notebook", "MAX_CELLS"),
    ("notebooks.notebook", "MAX_CHARACTERS"),
    ("workspace.permissions", "MAX_PENDING"),
    ("workspace.permissions", "MAX_APPROVALS"),
    ("workspace.timed_patterns", "MAX_PATTERN"),
    ("workspace.timed_patterns", "SECONDS"),
    ("workspace.python_sessions", "MAX_SESSIONS"),
    ("workspace.files", "MAX_BYTES"),
    ("server.handlers.streaming", "MAX_STREAMS"),
    ("server.handlers.streaming", "STALLED"),
    ("agent.chat_requests", "MAX_MESSAGE"),
    ("agent.chat_requests", "MAX_ATTACHMENTS"),
    ("agent.live_chat", "MAX_TURNS"),
    ("model.callers", "MAX_KEY"),
)
"""Module and name of each constant that limits a caller or an administrator."""


def traits(app: type[Configurable]) -> Mapping[str, TraitType[Any, Any]]:
    """The settings of the extension, in the order of their definitions."""
    own = app.class_traits(config=True)
    return {name: own[name] for name in vars(ExtensionSettings) if name in own}


def configuration_page(app: type[Configurable]) -> str:
    """Every setting of the app, and the bounds that are not settings."""
    name = app.__name__
    return page(
        "Configuration",
        "*For administrators of a server.*",
        "No configuration is needed. The settings are traits, set like any of Jupyter Server's, in "
        "`jupyter_server_config.py`:",
        f'```python\nc.{name}.mode_cap = "edit"\nc.{name}.answer_budget = 16_000\n```',
        f"or on the command line: `jupyter lab --{name}.mode_cap=edit`.",
        "## Settings",
        table(
            ["setting", "type", "default", "meaning"],
            (
                [
                    f'<span id="{each}">`{each}`</span>',
                    _type(trait),
                    _default(app, trait),
                    sentence(trait.help),
                ]
                for each, trait in traits(app).items()
            ),
        ),
        "## Fixed limits",
        "Limits on what one caller or agent can use. At a limit there is a "
        "[typed error](errors.md), or the oldest entry is removed.",
        table(["limit", "value"], (_bound(module, constant) for module, constant in BOUNDS)),
    )


def _type(trait: TraitType[Any, Any]) -> str:
    values = getattr(trait, "values", None)
    if values:
        return ", ".join(code(value) for value in values)
    return re.sub(r"(?<!^)(?=[A-Z])", " ", type(trait).__name__).lower().replace("unicode", "text")


def _default(app: type[Configurable], trait: TraitType[Any, Any]) -> str:
    # A default computed at run time would be that of the machine that builds these pages.
    if f"_default_{trait.name}" in vars(app) or f"_{trait.name}_default" in vars(app):
        return ""
    value: object = trait.default()
    return code(f"{value:_}" if isinstance(value, int | float) and value >= 10_000 else repr(value))


def _bound(module: str, constant: str) -> list[str]:
    found = import_module(f"tk_ai_extension.{module}")
    # A constant that a docstring names is shown by its value.
    meaning = re.sub(
        "`([A-Z_]+)`", lambda named: _number(getattr(found, named[1])), docstrings(found)[constant]
    )
    return [meaning, _number(getattr(found, constant))]


def _number(value: float) -> str:
    return f"{value:,.15g}"

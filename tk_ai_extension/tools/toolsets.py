"""Toolsets: those of this package, and those that other packages provide through entry points."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType

from tk_ai_extension.model.errors import InternalError, InvalidArguments

TOOLSETS: Mapping[str, str] = {
    "default": "tk_ai_extension.tools.default",
    "claude-code": "tk_ai_extension.tools.claude_code",
    "omp": "tk_ai_extension.tools.omp",
}
"""Built-in toolsets by name. Each is a package whose modules define the tools."""

ENTRY_POINTS = "tk_ai_extension.toolsets"
"""Entry point group for toolsets of other packages: ``name = "package.of.its.tools"``."""


def modules(toolset: str) -> Iterator[ModuleType]:
    """Import and yield the modules of a toolset: the package and its modules, or a single module.

    >>> [module.__name__ for module in modules("claude-code")]
    ['tk_ai_extension.tools.claude_code', 'tk_ai_extension.tools.claude_code.notebook_edit']

    Raises:
        InvalidArguments: No package provides a toolset of that name, or several do.
        InternalError: The toolset cannot be imported.
    """
    name = TOOLSETS.get(toolset) or _entry_point(toolset).value
    try:
        package = import_module(name)
        yield package
        for info in pkgutil.iter_modules(getattr(package, "__path__", ())):
            yield import_module(f"{name}.{info.name}")
    except ImportError as error:
        raise InternalError(
            f"The toolset `{toolset}` cannot be loaded: {error}.",
            hint="Fix or uninstall the package that provides it.",
        ) from error


def _entry_point(toolset: str) -> EntryPoint:
    # Only for names that are not built in: reading entry points takes longer the more is installed.
    found = entry_points(group=ENTRY_POINTS)
    named = {entry.value: entry for entry in found if entry.name == toolset}
    if not named:
        known = ", ".join(sorted({*TOOLSETS, *found.names}))
        raise InvalidArguments(f"Unknown toolset `{toolset}`.", hint=f"Choose one of: {known}.")
    if len(named) > 1:
        raise InvalidArguments(
            f"Several packages provide a toolset `{toolset}`: {', '.join(sorted(named))}.",
            hint="Uninstall all but one.",
        )
    return next(iter(named.values()))

"""The toolsets that there are: ours, and those that other packages bring."""

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
    "introspection": "tk_ai_extension.tools.introspection",
}
"""Our own by name, each a package whose modules define the tools."""

ENTRY_POINTS = "tk_ai_extension.toolsets"
"""The group of entry points by which a package adds its own: ``name = "package.of.its.tools"``."""


def modules(toolset: str) -> Iterator[ModuleType]:
    """The modules of a toolset, imported now: the package and those in it, or the one module.

    Raises:
        InvalidArguments: there is none of that name, or two packages bring one.
        InternalError: it cannot be imported.
    """
    name = TOOLSETS.get(toolset) or _brought(toolset).value
    try:
        package = import_module(name)
        yield package
        for info in pkgutil.iter_modules(getattr(package, "__path__", ())):
            yield import_module(f"{name}.{info.name}")
    except ImportError as error:
        raise InternalError(
            f"The toolset `{toolset}` cannot be loaded: {error}.",
            hint="Repair or remove the package that brings it.",
        ) from error


def _brought(toolset: str) -> EntryPoint:
    # What is installed is looked at when a name is not ours: it takes as long as there is much.
    found = entry_points(group=ENTRY_POINTS)
    named = {entry.value: entry for entry in found if entry.name == toolset}
    if not named:
        known = ", ".join(sorted({*TOOLSETS, *found.names}))
        raise InvalidArguments(f"There is no toolset `{toolset}`.", hint=f"Choose among: {known}.")
    if len(named) > 1:
        raise InvalidArguments(
            f"Several packages bring a toolset `{toolset}`: {', '.join(sorted(named))}.",
            hint="Remove all but one.",
        )
    return next(iter(named.values()))

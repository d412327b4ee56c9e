"""Tools that inspect the modules of a Python kernel without importing them."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from tk_ai_extension.model.digest import sanitise
from tk_ai_extension.model.errors import InvalidArguments, ModuleMissing
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.tools.default.variables import query_kernel
from tk_ai_extension.tools.parameters import Notebook
from tk_ai_extension.tools.registry import tool
from tk_ai_extension.tools.results import Result

PROGRAM = "kernel_modules.py"

Name = Annotated[str, Field(description="with dots, such as `os.path`")]


class ModuleEntry(BaseModel):
    """A module that can be imported."""

    name: str
    version: str | None = None
    """The version of its distribution."""
    loaded: bool = False
    """Whether the kernel has imported it."""
    standard: bool = False
    """Whether it is part of the standard library."""


class ModuleList(Result):
    """The modules that a kernel can import."""

    modules: list[ModuleEntry]
    more: int = 0

    def as_text(self) -> str:
        lines = [
            f"{m.name}{f' {m.version}' if m.version else ''}{', loaded' if m.loaded else ''}"
            for m in self.modules
        ]
        if self.more:
            lines.append(f"[{self.more} more: use a pattern]")
        return "\n".join(lines) or "No modules."


@tool("READ")
async def list_modules(
    context: ToolContext,
    notebook: Notebook = None,
    pattern: Annotated[
        str | None, Field(description="such as `num*`; includes the standard library")
    ] = None,
) -> ModuleList:
    """List the modules that the kernel can import, with versions. Python only."""
    call = {"query": "list", "pattern": pattern}
    found = await query_kernel(context, notebook, call, tool="list_modules", program=PROGRAM)
    return ModuleList(
        modules=[ModuleEntry(**entry) for entry in found["modules"]], more=found["more"]
    )


class ModuleCheck(Result):
    """Whether a module can be imported."""

    name: str
    available: bool
    loaded: bool = False
    """Whether the kernel has imported it."""
    version: str | None = None
    """The version of its distribution."""
    distribution: str | None = None
    """The name of the distribution that contains it."""
    location: str | None = None
    """The path of its file."""
    standard: bool = False
    """Whether it is part of the standard library."""
    found: str | None = None
    """If it is missing: the longest prefix of the name that exists."""

    def as_text(self) -> str:
        if not self.available:
            so_far = f"; `{self.found}` exists" if self.found else ""
            return f"No module `{self.name}` in the kernel's environment{so_far}."
        parts = [f"{self.name} can be imported"]
        if self.standard:
            parts.append("standard library")
        if self.distribution:
            parts.append(f"of {self.distribution} {self.version}")
        if self.loaded:
            parts.append("loaded")
        if self.location:
            parts.append(f"from {self.location}")
        return ", ".join(parts) + "."


@tool("READ")
async def check_module(context: ToolContext, name: Name, notebook: Notebook = None) -> ModuleCheck:
    """Check whether the kernel can import a module, and its version; imports nothing. Python only."""
    call = {"query": "check", "name": _checked(name)}
    found = await query_kernel(context, notebook, call, tool="check_module", program=PROGRAM)
    return ModuleCheck(name=name, **found)


class ModuleInfo(ModuleCheck):
    """The contents of a module."""

    doc: str = ""
    """Its docstring, or the beginning of it."""
    names: list[str] = Field(default_factory=list[str])
    """Its public names, functions with their signatures."""
    submodules: list[str] = Field(default_factory=list[str])
    """The modules in a package."""
    more: int = 0
    """The number of names that are left out."""

    def as_text(self) -> str:
        parts = [super().as_text(), self.doc]
        if self.names:
            parts.append("\n".join(self.names) + (f"\n[{self.more} more]" if self.more else ""))
        if self.submodules:
            parts.append(f"Submodules: {', '.join(self.submodules)}")
        return "\n\n".join(part for part in parts if part)


@tool("READ")
async def get_module_info(
    context: ToolContext, name: Name, notebook: Notebook = None
) -> ModuleInfo:
    """Show a module's version, docstring, functions and submodules; imports nothing. Python only."""
    call = {"query": "describe", "name": _checked(name)}
    found = await query_kernel(context, notebook, call, tool="get_module_info", program=PROGRAM)
    if not found["available"]:
        raise ModuleMissing(ModuleCheck(name=name, **found).as_text())
    found["doc"] = sanitise(found["doc"])
    return ModuleInfo(name=name, **found)


def _checked(name: str) -> str:
    if not all(part.isidentifier() for part in name.split(".")):
        raise InvalidArguments(f"`{name}` is not a module name.")
    return name

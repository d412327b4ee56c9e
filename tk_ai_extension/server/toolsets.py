"""Registries by toolsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tk_ai_extension.tools.registry import Registry


class Registries:
    """Creates one registry per combination of toolsets, on first use.

    Args:
        default: The default toolsets.
        allowed: The only toolsets, besides the default ones, that a connection may choose; empty for all.
    """

    def __init__(
        self,
        default: Sequence[str],
        allowed: Sequence[str] = (),
    ) -> None:
        self._allowed = frozenset((*default, *allowed)) if allowed else None
        self._default = ",".join(default)
        self._loaded: Registry | None = None
        self._made: dict[tuple[str, ...], Registry] = {}

    def get(self, toolsets: str | None = None) -> Registry:
        """Return the tools of comma-separated toolsets; of the default ones for None.

        Raises:
            InvalidArguments: an unknown toolset, or none.
            PermissionDenied: the administrator does not allow a toolset.
        """
        if toolsets is None:
            if self._loaded is None:
                self._loaded = self.get(self._default)
            return self._loaded
        # Imported on first use: pydantic alone would slow down the server's start.
        from tk_ai_extension.model.errors import InvalidArguments, PermissionDenied
        from tk_ai_extension.tools.registry import Registry

        if toolsets == "nb":
            from tk_ai_extension.tools.whole_notebooks import TOOLS

            return self._made.setdefault(("nb",), Registry(TOOLS))
        chosen = tuple(sorted({name.strip() for name in toolsets.split(",")} - {""}))
        if not chosen:
            raise InvalidArguments("`toolsets` is empty.", hint="Omit `toolsets`, or name one.")
        if self._allowed is not None and (refused := set(chosen) - self._allowed):
            raise PermissionDenied(
                f"This server does not allow the toolset `{min(refused)}`.",
                hint=f"Choose from {', '.join(sorted(self._allowed))}.",
            )
        # Only valid combinations are stored, so that their number is bounded.
        if chosen not in self._made:
            self._made[chosen] = Registry.load(chosen)
        return self._made[chosen]

    def prepare(self) -> None:
        """Load the default tools and their schemas; slow, may run in a thread."""
        for tool in self.get():
            _ = tool.input_schema, tool.output_schema

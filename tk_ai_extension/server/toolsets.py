"""Registries by toolsets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tk_ai_extension.tools.registry import Ownership, Registry


class Registries:
    """Creates one registry per combination of toolsets, on first use.

    Args:
        default: The default toolsets.
        ownership: Returns what decides which calls belong to another server.
    """

    def __init__(
        self, default: Sequence[str], ownership: Callable[[], Ownership | None] = lambda: None
    ) -> None:
        self._ownership = ownership
        self._default = ",".join(default)
        self._made: dict[tuple[str, ...], Registry] = {}

    def get(self, toolsets: str | None = None) -> Registry:
        """Return the tools of comma-separated toolsets; of the default ones for None.

        Raises:
            InvalidArguments: an unknown toolset, or none.
        """
        # Imported on first use: pydantic alone would slow down the server's start.
        from tk_ai_extension.model.errors import InvalidArguments
        from tk_ai_extension.tools.registry import Registry

        names = (self._default if toolsets is None else toolsets).split(",")
        chosen = tuple(sorted({name.strip() for name in names} - {""}))
        if not chosen:
            raise InvalidArguments("`toolsets` is empty.", hint="Omit `toolsets`, or name one.")
        # Only valid combinations are stored, so that their number is bounded.
        if chosen not in self._made:
            self._made[chosen] = Registry.load(chosen, self._ownership())
        return self._made[chosen]

    def prepare(self) -> None:
        """Load the default tools and their schemas; slow, may run in a thread."""
        for tool in self.get():
            _ = tool.input_schema, tool.output_schema

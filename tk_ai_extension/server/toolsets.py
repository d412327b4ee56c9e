"""The registries of the toolsets that connections choose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tk_ai_extension.tools.registry import Ownership, Registry


class Registries:
    """One registry for each choice of toolsets, made when first asked for.

    Args:
        default: The toolsets of a connection that chooses none.
        ownership: Gives what says which calls belong to another server.
    """

    def __init__(
        self, default: Sequence[str], ownership: Callable[[], Ownership | None] = lambda: None
    ) -> None:
        self._ownership = ownership
        self._default = ",".join(default)
        self._made: dict[tuple[str, ...], Registry] = {}

    def get(self, toolsets: str | None = None) -> Registry:
        """The tools of the toolsets named, with commas between; of the usual ones for None.

        Raises:
            InvalidArguments: a toolset that does not exist, or none at all.
        """
        # Imported at first use: pydantic alone takes longer than the server may need to start.
        from tk_ai_extension.model.errors import InvalidArguments
        from tk_ai_extension.tools.registry import Registry

        names = (self._default if toolsets is None else toolsets).split(",")
        chosen = tuple(sorted({name.strip() for name in names} - {""}))
        if not chosen:
            raise InvalidArguments(
                "No toolset is named.", hint="Leave `toolsets` out, or name one."
            )
        # Only choices that exist are kept, so that their number is bounded.
        if chosen not in self._made:
            self._made[chosen] = Registry.load(chosen, self._ownership())
        return self._made[chosen]

    def prepare(self) -> None:
        """Load the usual tools and their schemas; takes a while, and may be done in a thread."""
        for tool in self.get():
            _ = tool.input_schema, tool.output_schema

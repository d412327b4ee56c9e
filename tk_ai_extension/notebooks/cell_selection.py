"""What a person looks at in an open notebook, as reported by the page."""

from __future__ import annotations

from dataclasses import dataclass

from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.model.json_values import Json


@dataclass(frozen=True, slots=True)
class NotebookSelection:
    """The active cell of an open notebook, and the person's selection in it.

    Attributes:
        cell: The key of the active cell; None if there is none.
        selected: The keys of the selected cells, if there are several.
        text: The text that is selected in the active cell; empty for none.
        first_line: The number of its first line, from 1.
        last_line: The number of its last line.
    """

    cell: str | None = None
    selected: tuple[str, ...] = ()
    text: str = ""
    first_line: int = 1
    last_line: int = 1

    @classmethod
    def of(cls, message: Json) -> NotebookSelection:
        """Return the selection in a page's message.

        Raises:
            InvalidArguments: The message is invalid.
        """
        match message:
            case {"cell": str() | None as cell, "selected": [*keys], "selection": None}:
                text, first, last = "", 1, 1
            case {
                "cell": str() | None as cell,
                "selected": [*keys],
                "selection": {
                    "text": str() as text,
                    "first_line": int() as first,
                    "last_line": int() as last,
                },
            }:
                pass
            case _:
                raise InvalidArguments("The page's message about its active cell is invalid.")
        return cls(cell, tuple(map(str, keys)), text, first, last)

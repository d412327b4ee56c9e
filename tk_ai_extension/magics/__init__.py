"""`%tk` and `%%tk`: asking Claude from a cell (``%load_ext tk_ai_extension.magics``).

This package runs in kernels. It imports the standard library alone, so that it loads at once and works
in environments that have nothing else of ours; IPython is there, since it loads this.
"""

from __future__ import annotations

from typing import Any


def load_ipython_extension(ipython: Any) -> None:
    """Adds the magics; IPython calls it at ``%load_ext``."""
    from IPython.core.magic import no_var_expand

    from tk_ai_extension.magics.magic import Magic

    magic = Magic(ipython)

    def tk(line: str, cell: str | None = None) -> None:
        """Asks Claude in this notebook's chat; alone it says how."""
        magic.ask(line if cell is None else f"{line}\n{cell}")

    # A message means what it says: nothing in braces is taken for a variable.
    ipython.register_magic_function(no_var_expand(tk), "line_cell", "tk")
    if keep_question_marks not in ipython.input_transformers_cleanup:
        ipython.input_transformers_cleanup.append(keep_question_marks)


def unload_ipython_extension(ipython: Any) -> None:
    """Takes the magics away; IPython calls it at ``%unload_ext``."""
    for kind in ("line", "cell"):
        ipython.magics_manager.magics[kind].pop("tk", None)
    if keep_question_marks in ipython.input_transformers_cleanup:
        ipython.input_transformers_cleanup.remove(keep_question_marks)


def keep_question_marks(lines: list[str]) -> list[str]:
    r"""A cell in which `%tk` may end in a question mark, which IPython would look up in its help.

    Only at a cell's beginning, after comments and other magics: further down, such a line may be a
    part of a string.

    >>> keep_question_marks(["# Hm.\n", "%tk what is x?\n", "x\n"])
    ['# Hm.\n', "get_ipython().run_line_magic('tk', 'what is x?')\n", 'x\n']
    """
    kept = list(lines)
    for number, line in enumerate(lines):
        if line.startswith("%tk ") and line.rstrip().endswith("?"):
            kept[number] = f"get_ipython().run_line_magic('tk', {line[4:].strip()!r})\n"
        elif line.strip() and not line.startswith(("#", "%")):
            break
    return kept

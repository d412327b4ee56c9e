"""IPython magics `%tk` and `%%tk`: ask Claude from a cell (``%load_ext tk_ai_extension.magics``).

This package runs in kernels. It imports only the standard library and IPython, so that it loads
quickly and works in environments that lack this project's other dependencies.
"""

from __future__ import annotations

from typing import Any


def load_ipython_extension(ipython: Any) -> None:
    """Register the magics. IPython calls this for ``%load_ext``."""
    from IPython.core.magic import no_var_expand

    from tk_ai_extension.magics.magic import Magic

    magic = Magic(ipython)

    def tk(line: str, cell: str | None = None) -> None:
        """Ask Claude in this notebook's chat; without a message, print the usage."""
        magic.ask(line if cell is None else f"{line}\n{cell}")

    # A message is literal text: IPython must not expand `{name}` and `$name` in it.
    ipython.register_magic_function(no_var_expand(tk), "line_cell", "tk")
    if keep_question_marks not in ipython.input_transformers_cleanup:
        ipython.input_transformers_cleanup.append(keep_question_marks)


def unload_ipython_extension(ipython: Any) -> None:
    """Remove the magics. IPython calls this for ``%unload_ext``."""
    for kind in ("line", "cell"):
        ipython.magics_manager.magics[kind].pop("tk", None)
    if keep_question_marks in ipython.input_transformers_cleanup:
        ipython.input_transformers_cleanup.remove(keep_question_marks)


def keep_question_marks(lines: list[str]) -> list[str]:
    r"""Rewrite `%tk` lines that end in a question mark, which IPython would treat as a help request.

    Only lines at the beginning of the cell, after comments and other line magics, are rewritten. Further
    down, such a line may be part of a string; below a cell magic, of a file that it writes. IPython
    calls this again for code that a cell magic such as ``%%time`` runs.

    >>> keep_question_marks(["# Hm.\n", "%tk what is x?\n", "x\n"])
    ['# Hm.\n', "get_ipython().run_line_magic('tk', 'what is x?')\n", 'x\n']
    """
    kept = list(lines)
    for number, line in enumerate(lines):
        if line.startswith("%tk ") and line.rstrip().endswith("?"):
            kept[number] = f"get_ipython().run_line_magic('tk', {line[4:].strip()!r})\n"
        elif line.startswith("%%") or (line.strip() and not line.startswith(("#", "%"))):
            break
    return kept

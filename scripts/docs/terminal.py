"""Draw what the demo prints as a picture of a terminal.

python scripts/demo.py | python scripts/docs/terminal.py 6 7 8 11 12 > docs/assets/demo.svg

The numbers are those of the calls to show.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from html import escape

COLUMNS = 98
"""Characters of a line; a longer one is cut."""
LINE = 17
"""Pixels from one line to the next."""
CHARACTER = 7.25
"""Pixels of a character, about."""
MARGIN = 18

STYLE = """\
<style>
.tk-term { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.tk-term rect { fill: #1c262d; }
.tk-term text { fill: #d5dfe5; white-space: pre; }
.tk-term .call { fill: #ffb57f; font-weight: 600; }
.tk-term .sent { fill: #8fb8d0; }
.tk-term .added { fill: #8fd0a0; }
.tk-term .removed, .tk-term .error { fill: #f0938a; }
.tk-term .rule { fill: #7b8d98; }
</style>"""

KINDS = (
    ("call", re.compile(r" ?\d+ \w+")),
    ("sent", re.compile(r" {3}>")),
    ("added", re.compile(r" {3}│ \+")),
    ("removed", re.compile(r" {3}│ -")),
    ("error", re.compile(r" {3}│ Error ")),
    ("rule", re.compile(r" {3}└|…")),
)
"""How the lines of the demo begin."""


def calls(output: str) -> dict[int, list[str]]:
    """The lines of each call of the demo, by its number."""
    found: dict[int, list[str]] = {}
    for block in re.split(r"\n\n(?= ?\d+ \w)", output):
        number = re.match(r" ?(\d+) \w", block)
        if number:
            found[int(number[1])] = block.split("\n\n   In the")[0].rstrip().split("\n")
    return found


def picture(output: str, chosen: Sequence[int]) -> str:
    """The chosen calls as SVG."""
    by_number = calls(output)
    lines = [line for number in chosen for line in [*by_number[number], ""]][:-1]
    width = round(COLUMNS * CHARACTER + 2 * MARGIN)
    height = len(lines) * LINE + 2 * MARGIN
    head = (
        f'<svg class="tk-term" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" role="img" aria-label="What an agent reads when it calls the tools">'
    )
    return "\n".join(
        [
            head,
            STYLE,
            f'<rect width="{width}" height="{height}" rx="9"/>',
            *drawn(lines),
            "</svg>\n",
        ]
    )


def drawn(lines: Sequence[str]) -> Iterator[str]:
    """Each line as a text of its kind."""
    for position, line in enumerate(lines):
        shown = line if len(line) <= COLUMNS else f"{line[: COLUMNS - 1]}…"
        kind = next((name for name, pattern in KINDS if pattern.match(shown)), "")
        y = MARGIN + (position + 0.8) * LINE
        yield f'<text class="{kind}" x="{MARGIN}" y="{y:.0f}">{escape(shown)}</text>'


if __name__ == "__main__":
    sys.stdout.write(picture(sys.stdin.read(), [int(number) for number in sys.argv[1:]]))

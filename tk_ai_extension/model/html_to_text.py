"""Convert HTML to plain text in linear time.

The standard library's parser rescans from each ``<`` of an unclosed tag, which can block the event
loop for seconds on a few kilobytes. This parser examines each character a bounded number of times.
"""

from __future__ import annotations

import re
from html import unescape

_TAG = re.compile(
    r"""<(?P<end>/?)(?P<name>[a-zA-Z][^\s/>]*+)(?P<attributes>(?:[^>=]++|=\s*+(?:"[^"]*+"|'[^']*+')?+)*+)"""
)
_ALT = re.compile(
    r"""(?<![\w-])alt\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'>]++))""", re.IGNORECASE
)
_CHARACTER = re.compile(
    r"&(?:#[0-9]{1,7}(?![0-9]);?|#[xX][0-9a-fA-F]{1,6};?|[a-zA-Z][a-zA-Z0-9]{1,31};?)"
)
_SPACE = re.compile(r"\s+")
_SPACES = re.compile(r" +")

_BLOCK = re.compile(r"(?:p|div|br|tr|li|ul|ol|table|h[1-6]|pre|hr|section|thead|tbody)\Z")
_SILENT = frozenset(("script", "style", "head", "template", "metadata"))
_RAW = {name: re.compile(f"</{name}", re.IGNORECASE) for name in ("script", "style")}
"""End tags of elements with raw text as content."""


class _TextBuilder:
    """Builds text: table rows as lines with `|`, blocks as lines, without scripts and styles."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._silent = 0

    def add(self, markup: str) -> None:
        """Add the text between tags."""
        if markup and not self._silent:
            text = _CHARACTER.sub(lambda match: unescape(match[0]), markup)
            self.parts.append(_SPACE.sub(" ", text))

    def tag(self, name: str, attributes: str, *, end: bool) -> None:
        """Handle a tag."""
        if name in _SILENT:
            self._silent = max(self._silent - 1, 0) if end else self._silent + 1
        elif _BLOCK.match(name):
            self.parts.append("\n")
        elif name in ("td", "th") and not end:
            self.parts.append(" | " if self.parts and not self.parts[-1].endswith("\n") else "")
        elif name == "img" and not end:
            alt = _ALT.search(attributes)
            text = unescape(next(filter(None, alt.groups()), "")) if alt is not None else ""
            self.parts.append(f"[image{': ' + text if text else ''}]")

    def lines(self) -> str:
        """Return the text without blank lines."""
        lines = (_SPACES.sub(" ", line).strip() for line in "".join(self.parts).split("\n"))
        return "\n".join(filter(None, lines))


def html_text(markup: str) -> str:
    r"""Convert HTML to plain text, one line for each table row.

    A tag that is not closed by the end of the markup, and a ``<`` that starts no tag, are text.

    >>> html_text("<p>a &lt; b</p><table><tr><td>1<td>2</table>")
    'a < b\n1 | 2'
    """
    text = _TextBuilder()
    at = 0
    while (opening := markup.find("<", at)) >= 0:
        text.add(markup[at:opening])
        if markup.startswith(("<!", "<?"), opening):
            mark = "-->" if markup.startswith("<!--", opening) else ">"
            closing = markup.find(mark, opening)
            at = closing + len(mark) if closing >= 0 else len(markup)
            continue
        match = _TAG.match(markup, opening)
        if match is None:
            text.add("<")
            at = opening + 1
            continue
        if match.end() == len(markup):
            at = opening
            break
        name = match["name"].lower()
        text.tag(name, match["attributes"], end=bool(match["end"]))
        at = match.end() + 1
        if not match["end"] and name in _RAW:
            close = _RAW[name].search(markup, at)
            at = close.start() if close is not None else len(markup)
    text.add(markup[at:])
    return text.lines()

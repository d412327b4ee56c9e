"""Addresses of other hosts from which a browser loads as soon as a Markdown cell is shown."""

from __future__ import annotations

import html
import re

_ADDRESS = r"""["'<\s]*(?:(?:https?|ftp):[\\/]*|[\\/]{2,})([^\s"'<>()]+)"""
_LOADING = re.compile(
    # Images of Markdown. A definition may be that of an image.
    rf"!\[[^\]]*\]\({_ADDRESS}"
    rf"|^[ >]*\[[^\]]+\]:{_ADDRESS}"
    # Attributes of HTML. A link's address is loaded when a person follows it.
    r"|(?:src|srcset|poster|background|data|xlink:href)\s*="
    rf"(?:{_ADDRESS}|[\"'][^\"']*,{_ADDRESS})"
    rf"|<(?!a\b|area\b)[a-z][^<>]*\shref\s*={_ADDRESS}"
    # Styles, and formulas with styles. An escape could hide an address.
    rf"|(?:url|src|image|image-set)\({_ADDRESS}|@import{_ADDRESS}"
    r"|style\b[^>]*?(\\[0-9a-f].{,80})",
    re.IGNORECASE | re.MULTILINE,
)


def remote_references(markdown: str) -> frozenset[str]:
    """Return the addresses on other hosts that a Markdown cell loads, without their schemes.

    >>> sorted(remote_references("![](https://a.example/x) <img src='//b.example'>"))
    ['a.example/x', 'b.example']
    >>> sorted(remote_references("[a link](https://a.example), ![](plot.png), ![](data:image/png;base64,AA)"))
    []
    """
    found = _LOADING.finditer(html.unescape(markdown))
    return frozenset(next(filter(None, match.groups())) for match in found)

"""Escape a model's Markdown so that the page that renders it loads and runs nothing."""

from __future__ import annotations

import re

JOINER = "\u2060"
"""U+2060 WORD JOINER: invisible and zero-width; it breaks up sequences that Markdown interprets."""

_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_PICTURE = re.compile(r"!(?=\[)")
_LINK = re.compile(r"\](?=[(:]\s*(?!https?://|#)\S)", re.IGNORECASE)


def escape_active_content(text: str) -> str:
    """Disable HTML, images, and links other than to the web; the text looks the same.

    JupyterLab trusts the outputs of a cell that runs. An image would send a request to its server,
    with any data in its URL. Code is escaped too, because only the renderer decides what is code.

    >>> escape_active_content("a < b, <b>, ![x](http://e/x)").replace(JOINER, "|")
    'a < b, <|b>, !|[x](http://e/x)'
    >>> escape_active_content("[a](https://e/), [b](javascript:c)").replace(JOINER, "|")
    '[a](https://e/), [b]|(javascript:c)'
    """
    text = _TAG.sub(f"<{JOINER}", text)
    text = _PICTURE.sub(f"!{JOINER}", text)
    return _LINK.sub(f"]{JOINER}", text)

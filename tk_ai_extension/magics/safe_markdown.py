"""Markdown that shows what a model wrote, and does nothing else in the page that shows it."""

from __future__ import annotations

import re

JOINER = "\u2060"
"""A word joiner: it is not seen, has no width, and parts what would mean something together."""

_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_PICTURE = re.compile(r"!(?=\[)")
_LINK = re.compile(r"\](?=[(:]\s*(?!https?://|#)\S)", re.IGNORECASE)


def harmless(text: str) -> str:
    """The same text, to the eye, without HTML, pictures, and links that lead elsewhere than to the web.

    JupyterLab trusts what a cell puts out while it runs, and would obey it: a picture tells its
    server that it was looked at, with whatever its address holds. It is done everywhere, in code
    too: what is code in the end is for the renderer to say, and not for us to guess.

    >>> harmless("a < b, <b>, ![x](http://e/x)").replace(JOINER, "|")
    'a < b, <|b>, !|[x](http://e/x)'
    >>> harmless("[a](https://e/), [b](javascript:c)").replace(JOINER, "|")
    '[a](https://e/), [b]|(javascript:c)'
    """
    text = _TAG.sub(f"<{JOINER}", text)
    text = _PICTURE.sub(f"!{JOINER}", text)
    return _LINK.sub(f"]{JOINER}", text)

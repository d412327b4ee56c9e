"""Keeping tokens out of what is printed and logged."""

from __future__ import annotations

import logging
import re

MASK = "***"

_TOKEN = re.compile(
    r"(?i)((?:\b|%3f|%26)token(?:=|%3d)|authorization\W+(?:token|bearer) )[^\s&#'\"]+"
)
_PASSWORD = re.compile(r"(://[^/\s:@]*:)[^/\s@]+(?=@)")


def masked(text: str) -> str:
    """A text with stars for what is secret in the addresses and headers that it names.

    >>> masked("http://localhost:8888/lab?token=5ec4e7&x=1 did not answer")
    'http://localhost:8888/lab?token=***&x=1 did not answer'
    >>> masked("http://me:5ec4e7@localhost/")
    'http://me:***@localhost/'
    """
    return _PASSWORD.sub(rf"\1{MASK}", _TOKEN.sub(rf"\1{MASK}", text))


class MaskingFormatter(logging.Formatter):
    """Formats a log's lines, tracebacks too, without the tokens in them."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        return masked(super().format(record))


class MaskingFilter(logging.Filter):
    """Changes a log's records: their messages are without the tokens. One object has no state."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True; the record is kept."""
        message = record.getMessage()
        without = masked(message)
        if without != message:
            record.msg, record.args = without, None
        return True


_FILTER = MaskingFilter()


def mask_failed_requests() -> None:
    """Have Tornado's loggers mask the addresses of requests.

    Jupyter masks its own line of a request. Tornado logs the whole address beside it if a handler
    raises `HTTPError` with a message or fails, and these loggers are its only ones.
    """
    for name in ("tornado.access", "tornado.application", "tornado.general"):
        logging.getLogger(name).addFilter(_FILTER)  # the same one again is no second one

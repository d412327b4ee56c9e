"""Mask tokens and passwords in messages and logs."""

from __future__ import annotations

import logging
import re

MASK = "***"

_TOKEN = re.compile(
    r"(?i)((?:\b|%3f|%26)token(?:=|%3d)|authorization\W+(?:token|bearer) )[^\s&#'\"]+"
)
_PASSWORD = re.compile(r"(://[^/\s:@]*:)[^/\s@]+(?=@)")


def masked(text: str) -> str:
    """Replace the secrets in a text's URLs and headers by asterisks.

    >>> masked("http://localhost:8888/lab?token=5ec4e7&x=1 did not answer")
    'http://localhost:8888/lab?token=***&x=1 did not answer'
    >>> masked("http://me:5ec4e7@localhost/")
    'http://me:***@localhost/'
    """
    return _PASSWORD.sub(rf"\1{MASK}", _TOKEN.sub(rf"\1{MASK}", text))


class MaskingFormatter(logging.Formatter):
    """Formats log records, including tracebacks, with masked tokens."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the formatted record with masked tokens."""
        return masked(super().format(record))


class MaskingFilter(logging.Filter):
    """Masks tokens in the messages of log records. It has no state."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Mask the message and return True."""
        message = record.getMessage()
        without = masked(message)
        if without != message:
            record.msg, record.args = without, None
        return True


_FILTER = MaskingFilter()


def mask_failed_requests() -> None:
    """Add a filter to Tornado's loggers that masks the URLs of requests.

    Jupyter masks tokens in its access log. Tornado also logs the whole URL if a handler fails or
    raises `HTTPError` with a message.
    """
    for name in ("tornado.access", "tornado.application", "tornado.general"):
        logging.getLogger(name).addFilter(_FILTER)  # Idempotent: a filter is added only once.

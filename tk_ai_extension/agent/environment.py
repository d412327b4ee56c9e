"""Environment of the agents' processes: what they inherit, and which variables hold secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from urllib.parse import quote, unquote

INHERITED = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TERM"),
    *("TMPDIR", "TEMP", "TMP", "LD_LIBRARY_PATH", "DYLD_*", "NIX_*"),
    *("SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "USERPROFILE", "HOMEDRIVE"),
    *("HOMEPATH", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES*"),
    "NUMBER_OF_PROCESSORS",
)
"""Variables (`fnmatch`) that an agent's process inherits, in addition to those of its provider."""

SECRET_WORDS = ("*KEY*", "*TOKEN*", "*SECRET*", "*PASSW*", "*CREDENTIAL*", "*_HEADERS")
"""Names (`fnmatch`) of variables that may hold a secret."""

MIN_SECRET = 4
"""Minimum length of a secret: a shorter one would garble each text."""

_USER_INFO = re.compile(r"(?:^|//)([^\s/@:]*:(?!//)([^\s@]+))@")
"""User information of an address, and the password in it."""
_SCHEME = re.compile(r"(?:bearer|basic|token)\s+", re.IGNORECASE)

NETWORK = (
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"),
    *("http_proxy", "https_proxy", "no_proxy", "all_proxy"),
    *("NODE_EXTRA_CA_CERTS", "NODE_OPTIONS", "SSL_CERT_FILE", "SSL_CERT_DIR"),
)
"""Variables of proxies and certificates."""


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a variable matches one of these patterns."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def inherited(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that an agent's process inherits, except those of its provider."""
    return {name: value for name, value in environment.items() if matches(name, INHERITED)}


def secrets_of(*environments: Mapping[str, str]) -> tuple[str, ...]:
    """Return the secrets in the environments of processes, the longest first, for redaction.

    They are the values of `SECRET_WORDS`, the value of each header in them, and the passwords of
    addresses in any variable; each also as other programs write it.

    >>> secrets_of({"HTTPS_PROXY": "http://bob:hunter2@proxy:1", "LANG": "C"})
    ('bob%3Ahunter2', 'bob:hunter2', 'hunter2')
    >>> secrets_of({"X_HEADERS": "Authorization: Bearer 0123456789"})[-1]
    '0123456789'
    """
    found: set[str] = set()
    for name, value in (each for variables in environments for each in variables.items()):
        if matches(name, SECRET_WORDS):
            found |= {value, *value.splitlines()}
        if matches(name, ("*_HEADERS",)):
            found |= {part.partition(sign)[2] for part in _parts(value) for sign in ":="}
        for match in _USER_INFO.finditer(value):
            found |= {match[1], match[2]}
    plain = {unquote(each.strip()) for each in found}
    plain |= {_SCHEME.sub("", each, count=1) for each in plain} | {each.strip() for each in found}
    forms = {
        form for each in plain for form in (each, quote(each, safe=""), json.dumps(each)[1:-1])
    }
    return tuple(sorted((f for f in forms if len(f) >= MIN_SECRET), key=lambda f: (-len(f), f)))


def _parts(value: str) -> list[str]:
    """Return the headers in a value, which separates them by lines or by commas."""
    return [part for line in value.splitlines() for part in (line, *line.split(","))]


def redacted(text: str, secrets: Iterable[str]) -> str:
    """Return a text without the secrets that `secrets_of` returned."""
    for value in secrets:
        text = text.replace(value, "[secret]")
    return text

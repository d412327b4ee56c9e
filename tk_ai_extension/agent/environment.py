"""Environment of the agents' processes: what they inherit, and which variables hold secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from urllib.parse import quote, unquote

INHERITED = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TERM"),
    *("TMPDIR", "TEMP", "TMP", "LD_LIBRARY_PATH", "DYLD_*", "NIX_*"),
    *("SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "USERPROFILE", "HOMEDRIVE"),
    *(
        "HOMEPATH",
        "APPDATA",
        "LOCALAPPDATA",
        "PROGRAMDATA",
        "PROGRAMFILES*",
        "NUMBER_OF_PROCESSORS",
    ),
)
"""Variables (`fnmatch`) that an agent's process inherits, in addition to those of its provider."""

SECRET_WORDS = ("*KEY*", "*TOKEN*", "*SECRET*", "*PASSW*", "*CREDENTIAL*", "*_HEADERS")
"""Names (`fnmatch`) of variables that may hold a secret."""

MIN_PART = 4
"""Minimum length of a part of a value that is a secret by itself: a shorter one would garble each text."""
MIN_HEADER = 8
"""The same of the value of a header: most headers are no secrets."""

_USER_INFO = re.compile(r"(?:^|//)([^\s/@:?#]*:[^\s/?#]+)@")
_SCHEME = re.compile(r"(?:bearer|basic|token|digest|negotiate|apikey|key)\s+", re.IGNORECASE)
_AFTER_NAME = re.compile(r"[:=]")

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


def secrets_of(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the secrets in the environment of a process, the longest first, for redaction.

    They are the values of `SECRET_WORDS` with their lines, the value of each header in them, and the
    user information of addresses in any variable; each also as other programs write it.

    >>> secrets_of({"HTTPS_PROXY": "http://bob:hunter2@proxy:1", "LANG": "C"})
    ('bob%3Ahunter2', 'bob:hunter2', 'hunter2')
    >>> secrets_of({"X_HEADERS": "Authorization: Bearer 0123456789"})[1:]
    ('Bearer%200123456789', 'Bearer 0123456789', '0123456789')
    """
    found: set[str] = set()
    for name, value in environment.items():
        if value and matches(name, SECRET_WORDS):
            found |= {value, value.strip(), json.dumps(value)[1:-1]}
            found |= {line.strip() for line in value.splitlines() if len(line) >= MIN_HEADER}
        if matches(name, ("*_HEADERS",)):
            found |= _forms(_header_values(value), MIN_HEADER)
        found |= secret_parts(value)
    return tuple(sorted(found - {""}, key=lambda each: (-len(each), each)))


def secret_parts(value: str) -> set[str]:
    """Return the user information of the addresses in a value, and what follows a scheme such as Bearer.

    >>> sorted(secret_parts("Bearer 0123456789"))
    ['0123456789']
    """
    found = _forms(_user_info(value), MIN_PART) if "@" in value else set[str]()
    scheme = _SCHEME.match(value)
    return found if scheme is None else found | _forms([value[scheme.end() :]], MIN_HEADER)


def _user_info(value: str) -> Iterator[str]:
    """Yield the user information of the addresses in a value, and the password of each."""
    found = [match[1] for match in _USER_INFO.finditer(value)]
    for word in value.split():
        # A password with a slash, in an address that is not valid.
        _, scheme, address = word.partition("://")
        user_info, separator, _ = (address if scheme else word.removeprefix("//")).rpartition("@")
        user, colon, password = user_info.partition(":")
        # Without a scheme it may be a list of paths.
        is_address = scheme or (user and not password.startswith("/"))
        if separator and colon and is_address and not set("/@?#") & set(user):
            found.append(user_info)
    for user_info in found:
        yield user_info
        yield user_info.partition(":")[2]


def _header_values(value: str) -> Iterator[str]:
    """Yield the value of each header, and what follows a scheme such as Bearer.

    >>> [*_header_values("a=Basic%20c,d=e f")]
    ['Basic%20c', 'c', 'e f']
    """
    values: list[str] = []
    for line in value.splitlines():
        is_first = True
        for part in line.split(","):
            name, *rest = _AFTER_NAME.split(part, 1)
            if rest and name.strip().replace("-", "").replace("_", "").isalnum():
                values += rest
            elif not is_first and values:
                # The comma was the value's own.
                values[-1] += f",{part}"
            is_first = False
    for each in map(str.strip, values):
        yield each
        plain = unquote(each)
        if (scheme := _SCHEME.match(plain)) is not None:
            yield plain[scheme.end() :]


def _forms(texts: Iterable[str], minimum: int) -> set[str]:
    """Return texts as they are, percent-decoded, percent-encoded and as JSON, without too short ones."""
    found: set[str] = set()
    for text in texts:
        plain = unquote(text)
        found |= {text, plain, quote(plain, safe=""), json.dumps(plain)[1:-1]}
    return {each for each in found if len(each) >= minimum}


def redacted(text: str, secrets: Iterable[str]) -> str:
    """Return a text without these secrets.

    Args:
        text: The text.
        secrets: What `secrets_of` returned.
    """
    for value in secrets:
        text = text.replace(value, "[secret]")
    return text

"""Environment of the agents' processes: what they inherit, and which variables hold secrets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

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
    """Return the secret values in the environment of a process, the longest first, for redaction."""
    found = {value for name, value in environment.items() if value and matches(name, SECRET_WORDS)}
    return tuple(sorted(found, key=len, reverse=True))

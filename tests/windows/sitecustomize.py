"""Has this package find Python as it is on Windows, in each process whose path names this folder.

What others import is left as it is: they look at `os.name` and do what fits the system.
"""

from __future__ import annotations

import asyncio
import builtins
import errno
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGE = "tk_ai_extension"
MODULES = frozenset(
    ("fcntl", "grp", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty")
)
OS = """
    O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK O_TMPFILE WNOHANG chown chroot confstr fchdir fchmod
    fchown fork forkpty fpathconf fstatvfs geteuid getegid getgid getgroups getloadavg getpgid getpgrp
    getpriority getresuid getsid getuid getxattr initgroups killpg lchown listxattr lockf
    memfd_create mkfifo mknod nice openpty pathconf pidfd_open posix_fadvise posix_spawn pread preadv
    pwrite pwritev readv removexattr sched_getaffinity sendfile setegid seteuid setgid setgroups setpgid
    setpriority setsid setuid setxattr statvfs sync sysconf tcgetpgrp ttyname uname wait wait3 wait4
    waitid waitpid writev
"""
SIGNALS = """
    SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGTSTP SIGUSR1 SIGUSR2 SIGWINCH
"""
SOCKET = "AF_UNIX SO_PEERCRED SCM_RIGHTS"
ASYNCIO = "start_unix_server open_unix_connection"


class _Without(ModuleType):
    """A module without some of its names, and with others in their place."""

    def __init__(self, module: ModuleType, names: str, instead: Mapping[str, Any]) -> None:
        super().__init__(module.__name__)
        self.__dict__.update(instead, _module=module, _names=frozenset(names.split()))

    def __getattr__(self, name: str) -> Any:
        if name in self._names:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r} on Windows")
        return getattr(self._module, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._module, name, value)


def _without_folders(work: Callable[..., Any]) -> Callable[..., Any]:
    """A function of `os` that takes no descriptor of a folder."""

    def call(*args: Any, **named: Any) -> Any:
        if any(named.get(each) is not None for each in ("dir_fd", "src_dir_fd", "dst_dir_fd")):
            raise NotImplementedError(f"{work.__name__}: no dir_fd on Windows")
        return work(*args, **named)

    return call


def _open(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
    if dir_fd is not None:
        raise NotImplementedError("open: no dir_fd on Windows")
    if Path(path).is_dir():
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    return os.open(path, flags, mode)


_INSTEAD: dict[str, ModuleType] = {
    "os": _Without(
        os,
        OS,
        {
            **{
                n: _without_folders(getattr(os, n))
                for n in ("link", "rename", "replace", "stat", "unlink")
            },
            "O_BINARY": 0,
            "name": "nt",
            "open": _open,
            "supports_dir_fd": frozenset[Any](),
            "supports_effective_ids": frozenset[Any](),
            "supports_fd": frozenset[Any](),
        },
    ),
    "asyncio": _Without(asyncio, ASYNCIO, {}),
    "signal": _Without(signal, SIGNALS, {}),
    "socket": _Without(socket, SOCKET, {}),
    "sys": _Without(sys, "abiflags", {"platform": "win32"}),
}
_import = builtins.__import__


def _on_windows(
    name: str,
    globals: Mapping[str, Any] | None = None,  # noqa: A002
    locals: Mapping[str, Any] | None = None,  # noqa: A002
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    ours = str((globals or {}).get("__name__")).partition(".")[0] == PACKAGE or (
        str((globals or {}).get("__package__")).partition(".")[0] == PACKAGE
    )
    if not ours or level:
        return _import(name, globals, locals, fromlist, level)
    if name in MODULES:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    module: ModuleType = _import(name, globals, locals, fromlist, level)
    found = name if fromlist else module.__name__
    instead: ModuleType = _INSTEAD.get(found, module)
    return instead


builtins.__import__ = _on_windows

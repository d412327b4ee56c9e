# ruff: noqa: PTH118, PTH123, PTH208, T201
"""Ways out of a sandbox: run in one, by any Python and with nothing but its standard library.

Prints as JSON the names of those that work. Harmless where they do: files are opened for writing and
not written, signals are the null one.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import socket
import sys
from collections.abc import Callable, Iterator

libc = ctypes.CDLL(None, use_errno=True)

NEW_MOUNTS, NEW_USER, NEW_PROCESSES = 0x00020000, 0x10000000, 0x20000000
REMOUNT_WRITABLE, DETACH = 0x1000 | 0x20, 2
TIOCSTI = 0x5412
ATTACH = 16


def writable_kernel_files() -> str:
    """Files of the machine's kernel that can be opened for writing."""
    return " ".join(_writable("/proc", "/sys"))


def device_nodes() -> str:
    """Devices of the machine: disks, memory, and the like."""
    ours = {"full", "null", "ptmx", "pts", "random", "shm", "tty", "urandom", "zero", "console"}
    ours |= {"core", "fd", "stdin", "stdout", "stderr", "mqueue"}
    return " ".join(set(os.listdir("/dev")) - ours)


def kernel_memory() -> str:
    """The memory of the machine."""
    for path in ("/proc/kcore", "/dev/mem", "/dev/kmem"):
        try:
            with open(path, "rb") as file:
                if file.read(16):
                    return path
        except OSError:
            continue
    return ""


def writable_in_nested_namespaces() -> str:
    """Files that become writable with the capabilities of a user namespace made in the sandbox."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.close(reader)
        if libc.unshare(NEW_USER | NEW_MOUNTS | NEW_PROCESSES) == 0 and os.fork() == 0:
            libc.umount2(b"/proc/sys", DETACH)
            libc.mount(b"none", b"/proc/sys", None, REMOUNT_WRITABLE, None)
            libc.mount(b"none", b"/usr", None, REMOUNT_WRITABLE, None)
            os.write(writer, " ".join([*_writable("/proc/sys"), *_writable_folders()]).encode())
            if libc.mount(b"proc", b"/tmp", b"proc", 0, None) == 0:
                os.write(writer, " ".join(_writable("/tmp/sys")).encode())
            if libc.mount(b"sysfs", b"/tmp", b"sysfs", 0, None) == 0:
                os.write(writer, b" sysfs")
        os._exit(0)
    os.close(writer)
    os.wait()
    found = b""
    while block := os.read(reader, 4096):
        found += block
    return found.decode()


def mounts() -> str:
    """A file system mounted, or made writable, with the capabilities that the process has."""
    made = libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0
    remounted = libc.mount(b"none", b"/usr", None, REMOUNT_WRITABLE, None) == 0
    return "mounted" if made or remounted else ""


def writable_system() -> str:
    """Folders of the system that can be written."""
    return " ".join(_writable_folders())


def processes_outside() -> str:
    """Processes outside the sandbox."""
    outside = int(sys.argv[2])
    for act in (lambda: os.kill(outside, 0), lambda: os.listdir(f"/proc/{outside}/fd")):
        try:
            act()
        except OSError:
            continue
        return str(outside)
    return "ptrace" if libc.ptrace(ATTACH, outside, 0, 0) == 0 else ""


def sockets_outside() -> str:
    """Sockets of the machine: of the network, in its files, and abstract ones."""
    port, path, abstract = int(sys.argv[3]), sys.argv[4], "\0" + sys.argv[5]
    reached = []
    for family, address in (
        (socket.AF_INET, ("127.0.0.1", port)),
        (socket.AF_UNIX, path),
        (socket.AF_UNIX, abstract),
    ):
        try:
            with socket.socket(family) as one:
                one.settimeout(2)
                one.connect(address)
                reached.append(repr(address))
        except OSError:
            continue
    return " ".join(reached)


def files_outside() -> str:
    """A secret of the same user, elsewhere."""
    try:
        with open(sys.argv[1]) as file:
            return file.read()
    except OSError:
        return ""


def terminal() -> str:
    """Typing into the terminal that the sandbox was started from."""
    for number in range(3):
        try:
            fcntl.ioctl(number, TIOCSTI, b" ")
        except OSError:
            continue
        return str(number)
    try:
        os.close(os.open("/dev/tty", os.O_RDWR))
    except OSError:
        return ""
    return "/dev/tty"


def capabilities() -> str:
    """Capabilities, and the way to get some by a program of another user."""
    with open("/proc/self/status") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    held = [name for name in ("CapEff", "CapPrm", "CapBnd") if int(status[name], 16)]
    return " ".join([*held, *([] if status["NoNewPrivs"] == "1" else ["set-user-id programs"])])


ESCAPES: tuple[Callable[[], str], ...] = (
    writable_kernel_files,
    device_nodes,
    kernel_memory,
    mounts,
    writable_system,
    processes_outside,
    sockets_outside,
    files_outside,
    terminal,
    capabilities,
    writable_in_nested_namespaces,
)


def _writable(*tops: str) -> Iterator[str]:
    for top in tops:
        for folder, below, files in os.walk(top):
            if top == "/proc" and folder == top:
                below[:] = [name for name in below if not name.isdigit() and "self" not in name]
            for name in files:
                path = os.path.join(folder, name)
                try:
                    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
                except OSError:
                    continue
                yield path


def _writable_folders() -> Iterator[str]:
    for folder in ("/", "/usr", "/usr/bin", "/usr/lib", "/etc"):
        path = os.path.join(folder, "written")
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
        except OSError:
            continue
        yield path


if __name__ == "__main__":
    found = {escape.__name__: escape() for escape in ESCAPES}
    print(json.dumps({name: way for name, way in found.items() if way}))

"""The podman sandbox: a container without an image that shows the machine's own system."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tk_ai_extension.kernels.sandbox.view import Command, View

PODMAN_VARIABLES = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "XDG_*", "DBUS_*", "LC_*", "LANG*"),
    *("LD_*", "GO*", "CONTAINER*", "PODMAN_*", "STORAGE_*", "REGISTRY_*", "BUILDAH_*", "NOTIFY_*"),
    *("_CONTAINERS_*", "CONMON_*", "CRUN_*", "RUNC_*", "LISTEN_*", "*_proxy", "*_PROXY"),
)
"""Variables (`fnmatch`) that affect podman itself or the processes that it starts outside."""

RESOURCE_LIMIT = 16_384
"""Maximum open files, and maximum processes, of a program in a container."""

REMOVE_TIMEOUT = 30
"""Seconds in which podman must remove a container."""


@dataclass(frozen=True, slots=True)
class Podman:
    """Runs programs with ``podman run``, which forwards signals.

    Attributes:
        executable: The path of ``podman``.
        options: Global options of podman, such as ``("--runtime", "runc")``.
    """

    executable: str
    options: tuple[str, ...] = ()
    name: str = "podman"

    def command(self, argv: Sequence[str], view: View, label: str) -> Command:
        """Return ``podman run`` with the view as options.

        podman copies the values of variables from its own environment, except `PODMAN_VARIABLES`: they
        would change podman itself, so they are in its arguments.
        """
        command = [self.executable, *self.options, "run", "--rm", "--interactive", "--name", label]
        command += ["--network=none", "--cap-drop=all", "--security-opt=no-new-privileges"]
        command += ["--security-opt=label=disable", "--log-driver=none", "--hostname=sandbox"]
        command += ["--read-only", "--read-only-tmpfs=false", "--no-hosts", "--passwd=false"]
        command += ["--env-host=false", "--http-proxy=false", "--unsetenv-all"]
        if os.geteuid() != 0:
            command.append("--userns=keep-id")
        import resource  # Not on Windows, which has no podman sandbox.

        limits = {"nofile": resource.RLIMIT_NOFILE, "nproc": resource.RLIMIT_NPROC}
        for name, limit in limits.items():
            # By default podman requests more than the hard limit, and fails.
            hard = resource.getrlimit(limit)[1]
            number = RESOURCE_LIMIT if hard == resource.RLIM_INFINITY else min(hard, RESOURCE_LIMIT)
            command.append(f"--ulimit={name}={number}:{number}")
        for path in view.system():
            command.append(f"--volume={os.path.realpath(path)}:{path}:ro")
        for path, access in view.mounts():
            if access == "write" and view.outer(path) is not None:
                # podman would follow a link that code in another sandbox has put in its place.
                continue
            if access == "empty":
                command.append(f"--tmpfs={path}:rw,mode=1777,notmpcopyup")
            else:
                command.append(f"--volume={path}:{path}:{'ro' if access == 'read' else 'rw'}")
        handed_on: dict[str, str] = {}
        for variable, value in view.environment.items():
            if any(fnmatchcase(variable, pattern) for pattern in PODMAN_VARIABLES):
                command.append(f"--env={variable}={value}")
            else:
                command.append(f"--env={variable}")
                handed_on[variable] = value
        command += [f"--workdir={view.folder}", "--rootfs", str(view.root)]
        return Command([*command, *argv], handed_on)

    def processes(self, pid: int) -> list[int]:
        """Return podman's own process, which forwards the signal."""
        return [pid]

    def discard(self, label: str, environment: Mapping[str, str]) -> None:
        """Remove the container, which outlives podman's process."""
        subprocess.run(
            [self.executable, *self.options, "rm", "--force", "--ignore", "--time=0", label],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            timeout=REMOVE_TIMEOUT,
            check=False,
        )

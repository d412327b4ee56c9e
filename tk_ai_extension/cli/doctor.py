"""The checks of `nb doctor`: the command itself, the project, kernels, servers and sandboxes."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from pathlib import Path

from jupyter_client.kernelspec import KernelSpecManager

from tk_ai_extension._version import __version__
from tk_ai_extension.cli.command_context import CommandContext
from tk_ai_extension.cli.servers import API, ServerUnreachable, running_servers
from tk_ai_extension.kernels.sandbox.sandbox import probe


def doctor(context: CommandContext) -> int:
    """Check everything that `nb` needs; return the exit status."""
    root = context.project.root
    checks = [("nb", True, f"{__version__}, Python {platform.python_version()}, {sys.platform}")]
    checks.append(_command_on_path())
    is_writable = os.access(root, os.W_OK)
    checks.append(("project", is_writable, root if is_writable else f"{root} cannot be written"))
    kernels = ", ".join(sorted(KernelSpecManager().find_kernel_specs()))
    none = "no kernel is installed: `pip install ipykernel`"
    checks.append(("kernels", bool(kernels), kernels or none))
    for server in running_servers():
        try:
            has_extension = server.tools() is not None
            missing = "no tk-ai-extension: notebooks that are open there are not changed from here"
        except ServerUnreachable as error:
            has_extension, missing = False, str(error)
        name = "server of nb" if server.is_headless else "Jupyter Server"
        detail = f"{server.url} on {server.root}{'' if has_extension else f': {missing}'}"
        checks.append((name, has_extension, detail))
        if has_extension and server.root == os.path.realpath(root):
            model = server.request("GET", f"{API}/models")
            is_ready = model["ready"] and model["provider"] != "tour"
            detail = model["label"] if is_ready else f"{model['label']}. {model['hint']}"
            checks.append(("model", is_ready, detail))
    checks += [
        (f"sandbox: {each.name}", each.sandbox is not None, each.detail)
        for each in probe(Path(root))
    ]
    text = "\n".join(f"{'ok' if ok else '--'}  {name}: {detail}" for name, ok, detail in checks)
    looks = [{"name": name, "ok": ok, "detail": detail} for name, ok, detail in checks]
    return context.show(text, {"looks": looks})


def _command_on_path() -> tuple[str, bool, str]:
    """Return whether the `nb` on the PATH is this one; other packages install a command of that name."""
    found = shutil.which("nb")
    if found is None:
        return "command", False, "`nb` is not on the PATH"
    try:
        with open(found, "rb") as file:
            is_ours = b"tk_ai_extension" in file.read(4_096)
    except OSError:
        is_ours = False
    if is_ours:
        return "command", True, found
    return "command", False, f"{found} belongs to another package: use `tk-nb` instead"

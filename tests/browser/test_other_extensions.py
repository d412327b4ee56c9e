"""Another extension requires the tokens: it is built against this one, and JupyterLab shares them."""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path

from tests.browser.conftest import OpenLab
from tests.proofs import ROOT

EXAMPLE = ROOT / "examples" / "chat-count"


async def test_the_example_extension_is_built_and_counts_the_chats(
    open_lab: OpenLab, tmp_path: Path
) -> None:
    built = await _build(tmp_path / "example")
    lab = await open_lab(own=True)
    shutil.copytree(built, lab.server.home / "data" / "labextensions" / EXAMPLE.name)
    await lab.open()
    count = "() => window.jupyterapp.commands.execute('chat-count:count')"
    assert await lab.page.evaluate(count) == {"busy": 0, "all": 0}
    await lab.show_panel()
    await lab.say("start")
    await lab.log.get_by_text("start").first.wait_for()
    assert (await lab.page.evaluate(count))["all"] == 1


async def _build(folder: Path) -> Path:
    """Build a copy of the example, with the packages that the panel is built with and no others."""
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("node_modules", "lib"))
    modules = folder / "node_modules"
    modules.mkdir()
    for each in (ROOT / "node_modules").iterdir():
        (modules / each.name).symlink_to(each.resolve())
    (modules / "tk-ai-extension").symlink_to(ROOT)
    bin_ = Path(sys.executable).parent
    await _run("node", str(modules / ".bin" / "tsc"), cwd=folder)
    await _run(str(bin_ / "jupyter-builder"), "build", ".", cwd=folder)
    return folder / "labextension"


async def _run(*command: str, cwd: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *command, cwd=cwd, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode("utf-8", "replace")

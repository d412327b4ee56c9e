"""Try the extension with the lowest versions of Jupyter that it declares, and with the newest.

    python scripts/versions.py lowest newest

Each has its own environment (`.venv-lowest`, `.venv-newest`), made when it is missing and
brought up to date at each run: the newest ones are those that the registry has now, pre-releases
included. In each a real server is started with jupyter-collaboration, and in the lowest also one
without; a notebook is used, a cell inserted and run in it, and read back. Then JupyterLab is opened on
it in a browser: the panel is there, an agent's output appears in the page, no plugin has failed, and
the self-test has switched nothing off. The browser is that of the tests; nothing else of their
environment is used.
"""

from __future__ import annotations

import json
import os
import random
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright
from playwright.sync_api import Error as PlaywrightError

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.browser.chromium import FLAGS, chromium  # noqa: E402
from tests.browser.lab import DIALOG, SLOW_LOADING  # noqa: E402

LABEXTENSION = ROOT / "tk_ai_extension" / "labextension"
TRIED = ("jupyter_client", "jupyter_server", "jupyterlab", "jupyter-collaboration")
PORTS = (20_000, 32_000)
"""The lowest port that a server gets, and the end of the range."""
START = 300.0
"""Timeout for a server to start and to answer, in seconds, on a machine that also runs tests."""
SHOWN = 180.0
"""Timeout for a page to show what is expected, in seconds."""
SLOW_ACTIVATION = re.compile(
    r"Plugin \S+ (\(with \d+ dependants\) took \S+ms|is taking too long) to activate\.$"
)
"""Warnings of JupyterLab on a busy machine."""
CONFIG = """\
c = get_config()
c.ServerApp.jpserver_extensions = {
    "tk_ai_extension": True,
    "jupyterlab": True,
    "jupyter_server_fileid": True,
    "jupyter_server_ydoc": True,
}
c.YDocExtension.disable_rtc = not COLLABORATION
"""


def requirements() -> list[str]:
    """Declared requirements, with JupyterLab, a kernel and collaboration."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    lab = [line for line in extras["lab"] if not line.startswith("matplotlib")]
    return [*project["dependencies"], *lab, *extras["collab"]]


def lower_bounds() -> list[str]:
    """The lowest declared versions of the tested packages."""
    found: list[str] = []
    for line in requirements():
        match = re.match(r"([\w.-]+)>=([\w.]+)", line)
        if match and match[1] in TRIED:
            found.append(f"{match[1]}=={match[2]}")
    assert len(found) == len(TRIED), found
    return found


def environment(kind: str, *others: str) -> Path:
    """The Python of an environment of this kind, up to date.

    Args:
        kind: ``lowest``, ``newest``, or a name: what a user who installs the package would get.
        others: Further requirements.
    """
    options = {
        "lowest": lower_bounds,
        "newest": lambda: ["--prerelease", "allow", "--upgrade"],
    }.get(kind, lambda: ["--upgrade"])()
    python = with_packages(kind, *options, *requirements(), *others)
    # A copy: older servers do not follow links.
    panel = python.parent.parent / "share" / "jupyter" / "labextensions" / "tk-ai-extension"
    shutil.rmtree(panel, ignore_errors=True)
    shutil.copytree(LABEXTENSION, panel)
    return python


def with_packages(name: str, *arguments: str) -> Path:
    """The Python of the environment of this name, with packages in it.

    Args:
        name: ``.venv-NAME`` is its folder.
        arguments: Of ``uv pip install``: requirements and options.
    """
    folder = ROOT / f".venv-{name}"
    python = folder / "bin" / "python"
    uv = [sys.executable, "-m", "uv"]
    if not python.exists():
        subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    # uv does not read pip's configuration; the index that it names is meant for this as well.
    asked = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"],
        capture_output=True,
        text=True,
        check=False,
    )
    index = ["--default-index", asked.stdout.strip()] if asked.stdout.strip() else []
    subprocess.run(
        [*uv, "pip", "install", "--quiet", "--python", python, *index, *arguments],
        check=True,
    )
    return python


def installed(python: Path) -> str:
    """The tested packages with their versions."""
    code = (
        "import sys, importlib.metadata as m;"
        "print(*(f'{name} {m.version(name)}' for name in sys.argv[1:]), sep=', ')"
    )
    return subprocess.run(
        [python, "-c", code, *TRIED], check=True, capture_output=True, text=True
    ).stdout.strip()


def free_port() -> int:
    """A free port below those that systems choose themselves, as they do for kernels."""
    while True:
        port = random.randrange(*PORTS)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def smoke(python: Path, browser: Browser, *, collaboration: bool) -> None:
    """One round of the tools in a real server.

    Raises:
        RuntimeError: something did not answer as it should; the message begins with the server's log.
    """
    with (
        tempfile.TemporaryDirectory() as home,
        Path(home, "log").open("w", encoding="utf-8") as log,
    ):
        token = secrets.token_hex()
        Path(home, "root").mkdir()
        Path(home, "jupyter_server_config.py").write_text(
            CONFIG.replace("COLLABORATION", str(collaboration))
            + f"c.IdentityProvider.token = {token!r}\n",
            encoding="utf-8",
        )
        # Older servers do not report a port that they chose.
        port = free_port()
        folders = {f"JUPYTER_{name}_DIR": str(Path(home, name)) for name in ("DATA", "RUNTIME")}
        server = subprocess.Popen(
            [
                *(python, "-m", "jupyter_server", "--no-browser", "--allow-root"),
                *(f"--ServerApp.root_dir={home}/root", f"--ServerApp.port={port}"),
            ],
            env={
                **os.environ,
                **folders,
                "JUPYTER_CONFIG_DIR": home,
                "IPYTHONDIR": str(Path(home, "ipython")),
                "PYTHONPATH": str(ROOT),
                "JUPYTER_NO_CONFIG": "",
            },
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            address = f"http://127.0.0.1:{port}/"
            _round(server, browser, address, token)
        except (OSError, LookupError, AssertionError, PlaywrightError) as error:
            raise RuntimeError(
                f"{Path(home, 'log').read_text(encoding='utf-8')}\n{type(error).__name__}: {error}"
            ) from error
        finally:
            server.terminate()
            try:
                server.wait(30)
            except subprocess.TimeoutExpired:
                server.kill()


def _round(server: subprocess.Popen[bytes], browser: Browser, url: str, token: str) -> None:
    def ask(path: str, body: dict[str, Any] | None = None) -> Any:
        request = urllib.request.Request(
            f"{url}api/tk-ai/{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {token}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=START) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            raise OSError(f"{path}: {error.code} {error.read().decode()}") from error

    pause, deadline = threading.Event(), time.monotonic() + START
    while True:
        try:
            health = ask("health")
            break
        except urllib.error.URLError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise
            pause.wait(0.2)
    assert health["status"] == "ok", health
    assert health["backends"]["documents"] == "file", health
    ask("tools/create_notebook?caller=smoke", {"notebook": "plan.ipynb"})
    ask("tools/use_notebook?caller=smoke", {"notebook": "plan.ipynb"})
    ran = ask("tools/insert_and_execute_cell?caller=smoke", {"source": "print(6 * 7)", "index": 0})
    assert ran["runs"][0]["status"] == "ok", ran
    assert "42" in ran["runs"][0]["output"], ran
    read = ask("tools/read_notebook?caller=smoke", {})
    assert "print(6 * 7)" in json.dumps(read), read
    with _page(browser, f"{url}lab/tree/plan.ipynb?token={token}") as page:
        ask("tools/insert_and_execute_cell?caller=smoke", {"source": "print(7 * 7)", "index": 1})
        output = page.locator(".jp-OutputArea-output", has_text="49")
        expect(output).to_be_attached()
        # On a slow machine JupyterLab 4.4 leaves a cell that arrives while the page is laid out
        # without a place until the notebook is scrolled.
        page.locator(".jp-Notebook").hover()
        page.mouse.wheel(0, 10)
        expect(output).to_be_visible()


@contextmanager
def _page(browser: Browser, url: str) -> Generator[Page]:
    """A page of JupyterLab with a notebook and the panel.

    Raises:
        AssertionError: The panel is not there, a plugin of this extension has failed, or its self-test
            has not run or has switched something off.
    """
    failed: list[str] = []
    tested: list[str] = []

    def listen(message: ConsoleMessage) -> None:
        if "tk-ai-extension" not in message.text:
            return
        if "self-test in" in message.text:
            tested.append(message.text)
        elif message.type in ("error", "warning") and not SLOW_ACTIVATION.match(message.text):
            failed.append(message.text)

    page = browser.new_page()
    page.set_default_timeout(SHOWN * 1000)
    page.on("console", listen)
    # Collaboration asks after five seconds, which a busy machine may need to load a notebook.
    slow = page.locator(DIALOG, has_text=SLOW_LOADING)
    page.add_locator_handler(
        slow, lambda dialog: dialog.get_by_role("button", name="Continue waiting").click()
    )
    page.goto(url)
    page.locator(".jp-Notebook .jp-Cell").first.wait_for()
    page.locator('[data-id="tk-ai-chat"]').click()
    expect(page.get_by_role("textbox", name="Message", exact=True)).to_be_visible()
    yield page
    page.wait_for_function("performance.getEntriesByName('tk-ai-extension:self-test').length")
    page.close()
    assert not failed, failed
    assert len(tested) == 1, tested
    print(tested[0], flush=True)


@contextmanager
def _browser() -> Generator[Browser]:
    """The browser of the tests."""
    expect.set_options(timeout=SHOWN * 1000)
    with sync_playwright() as playwright:
        found = chromium(Path(playwright.chromium.executable_path))
        yield playwright.chromium.launch(
            executable_path=found.path,
            args=FLAGS,
            env={**os.environ, **found.environment},
        )


def main(kinds: list[str]) -> int:
    """Try the named kinds; return the exit code."""
    failed = 0
    with _browser() as browser:
        for kind in kinds or ["lowest", "newest"]:
            python = environment(kind)
            print(f"{kind}: {installed(python)}", flush=True)
            # The other tests run without it, with versions close to the newest.
            for collaboration in (True,) if kind == "newest" else (True, False):
                try:
                    smoke(python, browser, collaboration=collaboration)
                except RuntimeError as error:
                    failed += 1
                    way = "with" if collaboration else "without"
                    print(f"{error}\n{kind}, {way} collaboration: failed", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

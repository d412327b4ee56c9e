"""`nb lab`: JupyterLab on the very server that has the project's kernels."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.cli.conftest import Nb

pytestmark = pytest.mark.proves("nb:starts")


def get(url: str, path: str, body: Any = None) -> Any:
    """What the server answers a browser that has the address."""
    parts = urlsplit(url)
    request = urllib.request.Request(
        f"{parts.scheme}://{parts.netloc}/{path}",
        None if body is None else json.dumps(body).encode(),
        headers={"Authorization": parts.query.replace("token=", "token ")},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def check_that_a_page_without_the_token_gets_nothing(url: str) -> None:
    parts = urlsplit(url)
    for path in ("api/kernels", "api/tk-ai/health", "api/tk-ai/project/share"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{parts.scheme}://{parts.netloc}/{path}", timeout=30)
        refused.value.close()
        assert refused.value.code in (401, 403), path


def test_jupyterlab_is_on_the_server_that_has_the_projects_kernels(nb: Nb) -> None:
    nb.notebook("a.ipynb", "x = 6 * 7")
    nb("open", "a.ipynb")
    nb("exec", "0")
    host = nb.host
    url = nb("lab", "--no-browser", "--json").json["url"]
    assert "/lab/tree/a.ipynb?token=" in url
    with urllib.request.urlopen(url, timeout=30) as page:
        assert b"JupyterLab" in page.read()
    check_that_a_page_without_the_token_gets_nothing(url)
    (session,) = get(url, "api/sessions")
    assert session["path"] == "a.ipynb"
    (kernel,) = nb("ps", "--json").json["kernels"]
    assert kernel["kernel_id"] == session["kernel"]["id"]
    assert get(url, "api/tk-ai/health")["status"] == "ok"
    assert "42" in nb("run", "x").out
    assert nb("lab", "b.ipynb").out.split("token=")[1] == url.split("token=")[1] + "\n"
    assert nb.host == host
    runtime = Path(nb.environment["JUPYTER_RUNTIME_DIR"])
    assert list(runtime.glob("jpserver-*.json"))
    nb("shutdown")
    assert nb.processes() == []
    assert not list(runtime.glob("jpserver-*.json"))
    assert not (nb.root / ".nb").exists()

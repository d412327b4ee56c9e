"""The example of a deployment: its files can be read, and what they set exists."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml
from traitlets.config import Config

from tests.proofs import ROOT
from tk_ai_extension.server.app import TkAIExtensionApp

EXAMPLE = ROOT / "examples" / "jupyterhub"


def configured(path: Path, monkeypatch: Any) -> Config:
    """What a configuration file sets."""
    for name in ("HUB_PASSWORD", "USER_IMAGE", "USER_NETWORK"):
        monkeypatch.setenv(name, name.lower())
    config = Config()
    exec(compile(path.read_text(encoding="utf-8"), path, "exec"), {"get_config": lambda: config})
    return config


def test_the_settings_of_the_example_exist_and_are_the_same_on_docker_and_kubernetes(
    monkeypatch: Any,
) -> None:
    hub = configured(EXAMPLE / "hub" / "jupyterhub_config.py", monkeypatch)
    values = yaml.safe_load((EXAMPLE / "values.yaml").read_text(encoding="utf-8"))
    chart = values["hub"]["config"]["Spawner"]
    assert chart["args"] == hub.Spawner.args
    assert chart["disable_user_config"] is hub.Spawner.disable_user_config is True
    app = TkAIExtensionApp()
    app.parse_command_line(hub.Spawner.args)
    for argument in hub.Spawner.args:
        match = re.fullmatch(r"--TkAIExtensionApp\.(\w+)=(.+)", argument)
        assert match is not None
        found = getattr(app, match[1])
        assert match[2] in (found if isinstance(found, list) else [found])
    user = configured(EXAMPLE / "user" / "jupyter_server_config.py", monkeypatch)
    assert user.MappingKernelManager.cull_idle_timeout < 3_600


def test_the_services_of_the_example_have_what_they_name() -> None:
    compose = yaml.safe_load((EXAMPLE / "compose.yaml").read_text(encoding="utf-8"))
    services, hub = compose["services"], compose["services"]["hub"]
    assert hub["environment"]["USER_IMAGE"] == services["user"]["image"]
    assert hub["environment"]["USER_NETWORK"] == compose["networks"]["hub"]["name"]
    for service in services.values():
        folder = EXAMPLE / service["build"]
        copied = re.findall(
            r"^COPY (\S+)", (folder / "Dockerfile").read_text("utf-8"), re.MULTILINE
        )
        assert copied
        assert all((folder / name).is_file() for name in copied)

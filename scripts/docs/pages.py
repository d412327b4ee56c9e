"""The pages generated from the code, by their paths in the documentation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from scripts.docs.commands import commands_page
from scripts.docs.configuration import configuration_page
from scripts.docs.decisions import decisions_page
from scripts.docs.errors import errors_page
from scripts.docs.guarantees import guarantees_page, requirements_page
from scripts.docs.performance import performance_page
from scripts.docs.rest import rest_page
from scripts.docs.settings import settings_page
from scripts.docs.tools import tools_page
from tests.proofs import proofs
from tests.requirements import REQUIREMENTS
from tk_ai_extension.server.app import TkAIExtensionApp
from tk_ai_extension.server.handlers.base_handler import ROUTE_ERRORS
from tk_ai_extension.server.handlers.routes import ROUTES
from tk_ai_extension.server.openapi import describe
from tk_ai_extension.tools.registry import TOOLSETS, Registry

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"


def _rest() -> str:
    registry = Registry.load(TOOLSETS)
    return rest_page(describe(registry, "/"), list(registry), ROUTES)


def _contributing() -> str:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return text.replace("](docs/", "](")


PAGES: Mapping[str, Callable[[], str]] = {
    "reference/tools.md": lambda: tools_page(Registry.load(TOOLSETS), Registry.load()),
    "reference/rest.md": _rest,
    "reference/configuration.md": lambda: configuration_page(TkAIExtensionApp),
    "reference/settings.md": lambda: settings_page(ROOT / "schema"),
    "reference/commands.md": lambda: commands_page(Registry.load()),
    "reference/errors.md": lambda: errors_page(ROUTE_ERRORS),
    "reference/guarantees.md": lambda: guarantees_page(REQUIREMENTS, proofs()),
    "reference/requirements.md": lambda: requirements_page(REQUIREMENTS, proofs()),
    "performance/measured.md": lambda: performance_page(ROOT / "benchmarks"),
    "adr/index.md": lambda: decisions_page(DOCS / "adr"),
    "contributing.md": _contributing,
    "changelog.md": lambda: (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
}
"""The function that makes each page."""

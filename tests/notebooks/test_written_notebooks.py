"""Tabs with an open notebook while the server writes its file: they show it, or block nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness import ALICE
from tests.notebooks.tabs import PATH, TabHarness, services_of
from tests.support.document_bench import (
    sources,
)
from tk_ai_extension.model.errors import Conflict, NotebookExists
from tk_ai_extension.workspace import editing
from tk_ai_extension.workspace.workspace import Workspace


async def workspace_of(harness: TabHarness) -> Workspace:
    services = services_of(harness.app)
    await services.ready()
    return services.workspace


def shown(harness: TabHarness) -> list[str]:
    return sources(harness.page.notebooks[PATH].cells)


def file_of(harness: TabHarness) -> Path:
    return Path(harness.app.root_dir) / PATH


# --- whole notebooks


@pytest.mark.proves("ext:rtc")
async def test_a_notebook_is_created_in_the_tab_that_shows_it_though_its_file_is_gone(
    harness: TabHarness,
) -> None:
    file_of(harness).unlink()
    made = await editing.create(
        await workspace_of(harness), ALICE, PATH, [("code", "new")], tool="create_notebook"
    )
    assert sources(made.snapshot.cells) == shown(harness) == ["new"]
    assert [change.after and change.after.source for change in made.changes] == ["new"]


@pytest.mark.proves("ext:rtc")
async def test_a_notebook_is_not_created_below_unsaved_changes_in_a_tab(
    harness: TabHarness,
) -> None:
    workspace = await workspace_of(harness)
    await harness.person.type(PATH, 0, " typed")
    with pytest.raises(NotebookExists):
        await editing.create(workspace, ALICE, PATH, tool="create_notebook")
    file_of(harness).unlink()
    with pytest.raises(Conflict, match="unsaved changes"):
        await editing.create(workspace, ALICE, PATH, tool="create_notebook")
    assert not file_of(harness).exists()
    assert shown(harness) == ["a typed", "b"]


# --- tabs that do not answer

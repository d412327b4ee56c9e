"""Writes of text files are undone from the newest on, up to the first that was overwritten."""

from __future__ import annotations

from random import Random

import pytest

from tests.harness import ALICE, ToolHarness, backend, harness, jp_server_config
from tk_ai_extension.workspace import editing

__all__ = ["backend", "harness", "jp_server_config"]

NAME = "notes.txt"


@pytest.mark.proves("perm:agent-actions", "edit:history")
@pytest.mark.parametrize("seed", range(2))
async def test_a_text_that_a_person_wrote_last_is_never_undone(
    harness: ToolHarness, seed: int
) -> None:
    """Few texts, so that a person's is often one that an agent's write left or replaced."""
    random, workspace, file = Random(seed), harness.workspace, harness.root / NAME
    for _ in range(25):
        file.write_text("a")
        await workspace.journal.deleted(NAME)
        texts, left_by_agent = ["a"], ""  # A person's text, and the agent's ones since.
        for _ in range(random.randint(1, 5)):
            new = random.choice("abc")
            if random.random() < 0.6 and new != texts[-1]:
                file.write_text(new)
                await editing.record_file(workspace, ALICE, NAME, texts[-1])
                texts.append(new)
                left_by_agent = new
            elif new not in (texts[-1], left_by_agent):
                file.write_text(new)
                texts = [new]
        entries = await workspace.journal.undoable(ALICE, NAME)
        if entries:
            restored, left = await editing.undo_file(workspace, ALICE, NAME, entries)
            assert bool(restored) == (len(texts) > 1)
            assert bool(left) == (len(texts) <= len(entries))
        assert file.read_text() == texts[0]

"""Prompts in files: which are offered, what they become, and that they do nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tk_ai_extension.agent.chat_setup import ChatSetup

OWNER = "ada"


@pytest.fixture
def folders(tmp_path: Path) -> ChatSetup:
    for name in ("root", "home"):
        (tmp_path / name).mkdir()
    return ChatSetup(tmp_path / "root", tmp_path / "home", owners=frozenset({OWNER}))


def write(base: Path | None, path: str, text: str) -> Path:
    assert base is not None
    file = base / ".claude" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.proves("rest:chat")
async def test_commands_and_skills_are_listed_with_what_they_say_of_themselves(
    folders: ChatSetup,
) -> None:
    write(
        folders.root,
        "commands/review.md",
        "---\ndescription: Review a cell\nargument-hint: [cell] [how]\n---\nReview $1.",
    )
    write(folders.root, "commands/plots/line.md", "Plot.")
    write(
        folders.root, "skills/clean/SKILL.md", "---\ndescription: >\n  Clean\n  data\n---\nClean."
    )
    write(folders.root, "skills/hidden/SKILL.md", "---\nuser-invocable: false\n---\nBe quiet.")
    write(folders.root, "commands/notes.txt", "none")
    write(folders.home, "commands/review.md", "Mine.")
    found = await folders.prompts(OWNER)
    assert [(each["name"], each["origin"]) for each in found] == [
        ("clean", "project"),
        ("plots:line", "project"),
        ("review", "user"),
    ]
    assert found[0]["description"] == "Clean data"
    review = next(each for each in await folders.prompts("bob") if each["name"] == "review")
    assert review["origin"] == "project"
    assert (review["description"], review["hint"]) == ("Review a cell", "[cell] [how]")
    assert review["path"] == ".claude/commands/review.md"


@pytest.mark.proves("rest:chat")
@pytest.mark.parametrize(
    ("prompt", "message", "expected"),
    [
        ("Do $ARGUMENTS now.", "/p a  b", "Do a  b now."),
        ("$2 before $1, not $3.", "/p one 'two words'", "two words before one, not ."),
        ("$1", "/p $ARGUMENTS", "$ARGUMENTS"),
        ("costs $100 and $A", "/p", "costs $100 and $A"),
        ("Look.", "/p it's", "Look.\n\nARGUMENTS: it's"),
        ("Look.", "  /p\nat this", "Look.\n\nARGUMENTS: at this"),
        ("Look.", "/q at this", "/q at this"),
        ("Look.", "/home/ada/p is missing", "/home/ada/p is missing"),
        ("Look.", "run /p", "run /p"),
    ],
)
async def test_a_message_that_calls_a_prompt_becomes_its_text(
    folders: ChatSetup, prompt: str, message: str, expected: str
) -> None:
    write(folders.root, "commands/p.md", prompt)
    assert await folders.expand(OWNER, message) == expected


@pytest.mark.proves("rest:chat")
async def test_nothing_in_a_prompt_is_carried_out(folders: ChatSetup, tmp_path: Path) -> None:
    secret = tmp_path / "root" / "secret.txt"
    secret.write_text("hunter2", encoding="utf-8")
    ran = tmp_path / "ran"
    body = f"!`touch {ran}`\n@secret.txt @{secret}\n!touch {ran}"
    fields = "allowed-tools: Bash(touch:*)\nmodel: other\nhooks: x"
    write(folders.root, "commands/p.md", f"---\n{fields}\n---\n{body}")
    assert await folders.expand(OWNER, "/p") == body
    assert not ran.exists()


@pytest.mark.proves("rest:chat")
@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
@pytest.mark.parametrize("link", ["file", "skill", "commands", ".claude"])
async def test_no_link_leads_out_of_the_project(
    folders: ChatSetup, tmp_path: Path, link: str
) -> None:
    write(tmp_path / "outside", "commands/p.md", "Secret.")
    write(tmp_path / "outside", "skills/p/SKILL.md", "Secret.")
    outside = tmp_path / "outside" / ".claude"
    inside = tmp_path / "root" / ".claude"
    target = {
        "file": "commands/p.md",
        "skill": "skills/p",
        "commands": "commands",
        ".claude": "",
    }[link]
    (inside / target).parent.mkdir(parents=True, exist_ok=True)
    (inside / target).symlink_to(outside / target)
    assert await folders.prompts(OWNER) == []
    assert await folders.expand(OWNER, "/p") == "/p"

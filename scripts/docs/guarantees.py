"""The project's promises from `tests/requirements.py`, and the tests that prove them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from scripts.docs.markdown import page, table
from tests.proofs import Proof
from tests.requirements import PROMISES, Requirement

AREAS: Mapping[str, str] = {
    "doc": "Documents",
    "text": "Cell-marked text",
    "edit": "Cell edits",
    "kernel": "Kernels and sessions",
    "exec": "Execution",
    "out": "Outputs",
    "ext": "The extension",
    "mcp": "MCP",
    "rest": "REST",
    "chat": "The chat",
    "code": "Code as a person types",
    "nb": "The command line nb",
    "verify": "Verification",
    "ui": "Rendering",
}
"""Titles on the page of requirements, by the first part of the id."""

Proofs = Mapping[str, Sequence[Proof]]


def guarantees_page(requirements: Iterable[Requirement], proofs: Proofs) -> str:
    """The ten promises, each with its requirements and their tests."""
    rows = list(requirements)
    return page(
        "Guarantees",
        "*For people who must know what holds when something breaks.*",
        "Each row is proved by the tests below it, which inject the fault into real kernels, real servers "
        "and real files. `make test` runs them, `make soak` those that take minutes. "
        "[Requirements](requirements.md) lists the ordinary behaviour in the same way.",
        *(
            part
            for promise, title in PROMISES.items()
            for part in (
                f"## {title}",
                _modes() if promise == 5 else "",
                *(_row(each, proofs) for each in rows if each.promise == promise),
            )
        ),
    )


def requirements_page(requirements: Iterable[Requirement], proofs: Proofs) -> str:
    """All other requirements, each with its tests."""
    rows = [each for each in requirements if each.promise is None]
    return page(
        "Requirements",
        "*For developers who change the code, and for people who want to know what is tested.*",
        "Each requirement has a stable id and one sentence, and tests name the ids that they prove. A test "
        "checks both directions. [Guarantees](guarantees.md) lists what holds when something breaks.",
        *(
            part
            for area, title in AREAS.items()
            for part in (
                f"## {title}",
                *(_row(each, proofs) for each in rows if each.id.partition(":")[0] == area),
            )
        ),
    )


def _row(requirement: Requirement, proofs: Proofs) -> str:
    anchor = requirement.id.replace(":", "-")
    sentence = requirement.sentence[0].upper() + requirement.sentence[1:]
    tests = sorted(
        {f"{each.file}::{each.test}".removesuffix("::") for each in proofs[requirement.id]}
    )
    shown = "\n".join(f"    - `{test}`" for test in tests)
    return "\n\n".join(
        (
            f'<div class="tk-promise" id="{anchor}" markdown>',
            f"[`{requirement.id}`](#{anchor})",
            sentence + ("" if sentence.endswith(".") else "."),
            f'??? proof "{len(tests)} test{"s" if len(tests) > 1 else ""}"\n\n{shown}',
            "</div>",
        )
    )


def _modes() -> str:
    from tk_ai_extension.workspace.permissions import MODES, PermissionDecision, decide

    words = {
        PermissionDecision.RUN: "runs",
        PermissionDecision.ASK: "asks",
        PermissionDecision.REFUSE: "refused",
    }
    return (
        "Each tool has an [effect](tools.md); the mode says whether it runs, asks or is refused. MCP clients "
        "ask by themselves, so their default is `auto`; an administrator [caps](configuration.md#mode_cap) "
        "the mode.\n\n"
    ) + table(
        ["mode", "READ", "WRITE", "EXECUTE"],
        (
            [f"`{mode}`", *(words[decide(mode, effect)] for effect in ("READ", "WRITE", "EXECUTE"))]
            for mode in MODES
        ),
    )

"""What the project promises and which tests prove it, from `tests/requirements.py` and the tests' markers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from scripts.docs.markdown import page, table
from tests.proofs import Proof
from tests.requirements import Requirement

PROMISES: Mapping[str, tuple[str, str]] = {
    "fault": ("Faults", "What happens when something breaks."),
    "threat": ("Threats", "What an attacker can achieve."),
    "perm": (
        "Permission modes",
        (
            "Each tool has an [effect](tools.md); the mode says whether it runs, asks or is refused. "
            "MCP clients ask by themselves, so their default is `auto`; an administrator "
            "[caps](configuration.md#mode_cap) the mode."
        ),
    ),
}
"""The families on the page of guarantees: title and introduction by the first part of the id."""

BEHAVIOUR: Mapping[str, str] = {
    "doc": "Documents",
    "text": "Cell-marked text",
    "edit": "Cell edits",
    "kernel": "Kernels and sessions",
    "exec": "Execution",
    "out": "Outputs",
    "ext": "The extension",
    "mcp": "MCP",
    "rest": "REST",
    "code": "Code as a person types",
    "nb": "The command line nb",
    "hub": "On a JupyterHub",
    "verify": "Verification",
    "ui": "Rendering",
    "connect": "Connecting a model",
    "chat": "Prompts and servers of one's own",
}
"""The families on the page of requirements."""

Proofs = Mapping[str, Sequence[Proof]]


def family(requirement: Requirement) -> str:
    """The first part of the id."""
    return requirement.id.partition(":")[0]


def state(requirement: Requirement, proofs: Proofs) -> str:
    """``proved``, ``partly`` or ``open``; open, too, where no test names it yet."""
    if requirement.needs_proof and requirement.id in proofs:
        return "partly" if requirement.partial else "proved"
    return "open"


def guarantees_page(requirements: Iterable[Requirement], proofs: Proofs) -> str:
    """Faults, threats and permission modes, each with its tests."""
    rows = list(requirements)
    return page(
        "Guarantees",
        "*For people who rely on it when something breaks.*",
        "Each row is proved by the tests below it, which inject the fault into real kernels, real servers "
        "and real files. `make test` runs them, `make soak` those that take minutes. An open row has its "
        "reason. [Requirements](requirements.md) lists the ordinary behaviour in the same way.",
        summary(rows, proofs, {name: title for name, (title, _) in PROMISES.items()}),
        *(
            part
            for name, (title, about) in PROMISES.items()
            for part in (
                f"## {title}",
                about,
                _modes() if name == "perm" else "",
                *_rows(rows, name, proofs),
            )
        ),
    )


def requirements_page(requirements: Iterable[Requirement], proofs: Proofs) -> str:
    """All other requirements, each with its tests."""
    rows = list(requirements)
    return page(
        "Requirements",
        "*For developers who change the code, and for people who want to know what is tested.*",
        "Each requirement has a stable id and one sentence, and tests name the ids that they prove. A test "
        "checks both directions. "
        "[Guarantees](guarantees.md) has the rows about faults, threats and permissions.",
        summary(rows, proofs, BEHAVIOUR),
        *(
            part
            for name, title in BEHAVIOUR.items()
            for part in (f"## {title}", *_rows(rows, name, proofs))
        ),
    )


def summary(
    requirements: Iterable[Requirement], proofs: Proofs, families: Mapping[str, str]
) -> str:
    """How many of each family are proved, and how many wait."""
    rows = list(requirements)
    counts = {
        name: [state(each, proofs) for each in rows if family(each) == name] for name in families
    }
    return table(
        ["", "promises", "proved", "partly", "open"],
        (
            [
                title,
                str(len(counts[name])),
                *(str(counts[name].count(kind) or "") for kind in ("proved", "partly", "open")),
            ]
            for name, title in families.items()
        ),
    )


def _rows(requirements: Iterable[Requirement], name: str, proofs: Proofs) -> list[str]:
    return [_row(each, proofs) for each in requirements if family(each) == name]


def _row(requirement: Requirement, proofs: Proofs) -> str:
    kind = state(requirement, proofs)
    anchor = requirement.id.replace(":", "-")
    sentence = requirement.sentence[0].upper() + requirement.sentence[1:]
    lines = [
        f'<div class="tk-promise tk-{kind}" id="{anchor}" markdown>',
        f"[`{requirement.id}`](#{anchor}) *{kind}*",
        sentence + ("" if sentence.endswith(".") else "."),
    ]
    if requirement.reason_open:
        lines.append(
            f"*{'The rest waits' if requirement.partial else 'Open'}:* {requirement.reason_open}"
        )
    named = proofs.get(requirement.id, ())
    if named:
        tests = sorted({f"{proof.file}::{proof.test}".removesuffix("::") for proof in named})
        shown = "\n".join(f"    - `{test}`" for test in tests)
        lines.append(f'??? proof "{len(tests)} test{"s" if len(tests) > 1 else ""}"\n\n{shown}')
    return "\n\n".join([*lines, "</div>"])


def _modes() -> str:
    from tk_ai_extension.workspace.permissions import MODES, PermissionDecision, decide

    words = {
        PermissionDecision.RUN: "runs",
        PermissionDecision.ASK: "asks",
        PermissionDecision.REFUSE: "refused",
    }
    return table(
        ["mode", "READ", "WRITE", "EXECUTE"],
        (
            [f"`{mode}`", *(words[decide(mode, effect)] for effect in ("READ", "WRITE", "EXECUTE"))]
            for mode in MODES
        ),
    )

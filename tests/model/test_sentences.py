"""Sentences that people read on the screen, and their codes."""

from __future__ import annotations

import ast
import copy
import json
import re
from collections.abc import Iterator

import pytest

from tests.proofs import ROOT
from tk_ai_extension.agent.events import Event, Failed
from tk_ai_extension.model.agent_errors import ModelSilent
from tk_ai_extension.model.error_info import error_info
from tk_ai_extension.model.errors import NotebookNotFound
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.proposals import Proposal, ProposalStep
from tk_ai_extension.model.sentences import SENTENCES, Sentence, sentence_info, sentence_of

CELL = Sentence("cell", type="code", position=3)


def info(text: str) -> Json:
    """What is sent of a sentence."""
    found = sentence_info(text)
    assert found is not None
    return json.loads(json.dumps(found.as_dict()))


def test_a_sentence_is_its_english_text_and_knows_its_code() -> None:
    title = Sentence("delete", cell=CELL)
    assert title == "Delete code cell 3"
    assert info(title) == {
        "code": "delete",
        "parameters": {"cell": {"code": "cell", "parameters": {"type": "code", "position": 3}}},
    }


@pytest.mark.parametrize(("count", "text"), [(0, "0 changes"), (1, "1 change"), (2, "2 changes")])
def test_a_count_has_its_form(count: int, text: str) -> None:
    assert Sentence("changes", count=count) == text


def test_a_copy_is_the_text_alone() -> None:
    assert type(copy.deepcopy(CELL)) is str
    assert copy.deepcopy(CELL) == CELL


def test_a_text_without_a_code_has_none() -> None:
    assert sentence_info("Anything.") is None
    assert sentence_of("Anything.", None) == "Anything."


def test_a_parameter_that_is_long_is_cut_where_it_is_sent() -> None:
    assert info(Sentence("with_argument", name="x" * 10_000))["parameters"]["name"] == "x" * 500


def test_a_proposal_is_sent_with_the_codes_of_its_titles_and_received_with_them() -> None:
    title = Sentence("delete", cell=CELL)
    proposal = Proposal(title, (ProposalStep("delete", title),))
    sent = json.loads(json.dumps(proposal.as_dict()))
    assert sent["sentence"] == sent["steps"][0]["sentence"] == info(title)
    assert Proposal.from_dict(sent).as_dict() == sent
    # One of a version without codes is shown in English.
    del sent["sentence"], sent["steps"][0]["sentence"]
    assert Proposal.from_dict(sent).as_dict()["sentence"] is None


def test_an_error_is_sent_with_the_codes_of_its_message_and_of_its_hint() -> None:
    error = ModelSilent(Sentence("model_silent", seconds="60"))
    sent = Event.of(1, "t", 0, Failed(error_info(error))).as_dict()["error"]
    assert sent["message"] == "The model sent nothing for 60 s."
    assert sent["sentence"] == {"code": "model_silent", "parameters": {"seconds": "60"}}
    assert sent["hint_sentence"] == {"code": "hint_model_silent", "parameters": {}}
    other = error_info(NotebookNotFound("No notebook.", hint="Look elsewhere."))
    assert (other["sentence"], other["hint_sentence"]) == (None, None)


def test_an_error_for_agents_has_no_sentence_code() -> None:
    error = ModelSilent(Sentence("model_silent", seconds="60"))
    assert error.as_dict().keys() == {"code", "message", "hint", "retryable"}


def used() -> Iterator[tuple[str, set[str]]]:
    """The codes that the package makes sentences of, and what each is given."""
    for path in (ROOT / "tk_ai_extension").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "Sentence":
                given = {keyword.arg for keyword in node.keywords if keyword.arg}
                for part in ast.walk(node.args[0]):
                    if isinstance(part, ast.Constant) and part.value in SENTENCES:
                        yield str(part.value), given


def test_every_placeholder_of_a_sentence_gets_a_value() -> None:
    wrong = [
        (code, given)
        for code, given in used()
        for english in [SENTENCES[code]]
        if set(re.findall(r"{(\w+)}", english if isinstance(english, str) else english[1])) != given
    ]
    assert wrong == []


def test_every_code_is_of_a_sentence_that_is_used() -> None:
    source = "".join(
        path.read_text(encoding="utf-8")
        for path in (ROOT / "tk_ai_extension").rglob("*.py")
        if path.name != "sentences.py"
    )
    # The side of a cell is a part of a code.
    sides = {"place_after", "place_before"}
    assert [code for code in SENTENCES.keys() - sides if f'"{code}"' not in source] == []

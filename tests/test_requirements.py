"""Requirements and tests name each other: none is forgotten, none is invented."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.proofs import MarkerError, proofs, proofs_in
from tests.requirements import REQUIREMENTS


def test_ids_are_unique_and_well_formed() -> None:
    counts = Counter(requirement.id for requirement in REQUIREMENTS)
    assert [each for each, count in counts.items() if count > 1] == []
    assert [
        each for each in counts if not re.fullmatch(r"[a-z]+:[a-z0-9]+(-[a-z0-9]+)*", each)
    ] == []


def test_every_requirement_says_what_it_means_and_where_it_comes_from() -> None:
    known = re.compile(r"(S[0-4]( S[0-4])*|card|project)")
    assert [each.id for each in REQUIREMENTS if not each.sentence] == []
    assert [each.id for each in REQUIREMENTS if not known.fullmatch(each.source)] == []


def test_every_requirement_has_a_test_or_a_reason_in_words() -> None:
    proved = proofs()
    unproved = [each.id for each in REQUIREMENTS if each.needs_proof and each.id not in proved]
    assert not unproved, "no test names " + ", ".join(unproved)
    assert [each.id for each in REQUIREMENTS if each.partial and not each.reason_open] == []


def test_every_id_that_a_test_names_exists() -> None:
    known = {each.id for each in REQUIREMENTS}
    unknown = [
        str(proof) for each, found in proofs().items() if each not in known for proof in found
    ]
    assert unknown == []


def test_a_proved_requirement_is_not_called_open() -> None:
    proved = proofs()
    assert [each.id for each in REQUIREMENTS if not each.needs_proof and each.id in proved] == []


def test_a_proof_names_the_file_the_line_and_the_test() -> None:
    source = """
class TestA:
    @pytest.mark.proves("a:b", "c:d")
    async def test_x(self): ...
"""
    assert [str(proof) for proof in proofs_in(source, "tests/test_a.py")] == [
        "tests/test_a.py:3 TestA::test_x",
        "tests/test_a.py:3 TestA::test_x",
    ]


def test_a_marker_whose_ids_are_computed_is_refused() -> None:
    with pytest.raises(MarkerError, match="literal strings"):
        list(proofs_in("pytestmark = pytest.mark.proves(*IDS)\n", "tests/test_a.py"))

"""Requirements and tests name each other: none is forgotten, none is invented."""

from __future__ import annotations

import re
from collections import Counter

from tests.proofs import proofs
from tests.requirements import PROMISES, REQUIREMENTS


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


def test_every_requirement_has_a_test() -> None:
    proved = proofs()
    unproved = [each.id for each in REQUIREMENTS if each.id not in proved]
    assert not unproved, "no test names " + ", ".join(unproved)


def test_there_are_few_requirements() -> None:
    assert len(REQUIREMENTS) <= 160
    assert sum(each.source == "project" for each in REQUIREMENTS) <= 60
    assert {each.promise for each in REQUIREMENTS} == {None, *PROMISES}


def test_every_id_that_a_test_names_exists() -> None:
    known = {each.id for each in REQUIREMENTS}
    unknown = [
        str(proof) for each, found in proofs().items() if each not in known for proof in found
    ]
    assert unknown == []

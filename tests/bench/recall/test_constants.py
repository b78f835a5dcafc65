"""The constants of the scoring are moved, and chosen where they are not measured."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest

from bench.harness.dialogues import Query
from bench.recall import constants
from bench.recall.constants import DEFAULT, UNCHANGED, WEIGHT, Setting
from bench.recall.scores import Outcome
from runtime.errors import UsageError
from runtime.search import fusion


def scored(conversation: str, value: float, category: str = "temporal") -> Outcome:
    return Outcome(conversation, Query(q="?", cat=category, evidence=["a"]), value, value, value)


def test_every_public_number_of_the_scoring_is_a_constant() -> None:
    found = constants.constants(DEFAULT)
    assert found[WEIGHT] == DEFAULT[0] / sum(DEFAULT)
    assert found["AUTHOR"] == fusion.AUTHOR
    assert not any(name.startswith("_") for name in found)
    assert WEIGHT not in constants.constants((0.0, 1.0))


def test_weights_are_moved_by_a_step_and_others_by_half_of_them() -> None:
    assert constants.moved("SHARE", 0.3) == [0.2, 0.4]
    assert constants.moved("SHARE", 0.1) == [0, 0.2]
    assert constants.moved("DAYS", 3.0) == [1.5, 4.5]
    assert constants.moved("LITTLE", 0.02) == [0.01, 0.03]
    assert constants.moved("MOST", 32) == [16, 48]
    assert constants.moved("OFF", 0.0) == []
    assert constants.moved(WEIGHT, 1.0) == [0.9]


def test_a_constant_is_changed_for_a_search_and_restored() -> None:
    before: float = fusion.AUTHOR
    inside = []
    with suppress(UsageError), constants.changed((("AUTHOR", 0.9), (WEIGHT, 0.5))):
        inside.append(fusion.AUTHOR)
        raise UsageError("stopped")
    assert inside == [0.9]
    assert before == fusion.AUTHOR
    assert constants.weights_in(((WEIGHT, 0.6),), DEFAULT) == (0.6, 0.4)
    assert constants.weights_in((("AUTHOR", 0.9),), DEFAULT) == DEFAULT


def test_one_constant_is_moved_at_a_time() -> None:
    found = constants.each_moved([], DEFAULT)
    assert {name for [(name, _)] in found} == set(constants.constants(DEFAULT))
    [lower, higher] = constants.each_moved(["AUTHOR"], DEFAULT)
    assert lower[0][1] < fusion.AUTHOR < higher[0][1]
    with pytest.raises(UsageError, match="the scoring has no constant COLOUR"):
        constants.each_moved(["COLOUR"], DEFAULT)


def test_the_grid_begins_with_the_unchanged_setting() -> None:
    found = constants.grid(None, DEFAULT)
    assert found[0] == UNCHANGED
    assert 2 < len(found) == len(set(found)) <= constants.MOST_COMBINATIONS
    assert not any(name == WEIGHT for setting in constants.grid(None, (0.0, 1.0)) for name, _ in setting)


def test_a_grid_can_be_given_as_a_file(tmp_path: Path) -> None:
    file = tmp_path / "grid.json"
    file.write_text(json.dumps({"AUTHOR": [0.5, fusion.AUTHOR], WEIGHT: [DEFAULT[0]]}))
    assert constants.grid(file, DEFAULT) == [UNCHANGED, (("AUTHOR", 0.5), (WEIGHT, DEFAULT[0]))]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "cannot be read"),
        ("{", "it is not JSON"),
        ('{"AUTHOR": 0.1}', "is not a grid"),
        ("[0.1]", "is not a grid"),
        ('{"AUTHOR": []}', "is not a grid"),
        ('{"COLOUR": [0.1]}', "no constant COLOUR"),
        (json.dumps({"AUTHOR": list(range(25))}), "has 25 combinations"),
    ],
)
def test_a_wrong_grid_is_refused(tmp_path: Path, content: str | None, reason: str) -> None:
    file = tmp_path / "grid.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(UsageError, match=reason):
        constants.grid(file, DEFAULT)


def test_a_setting_is_measured_where_it_was_not_chosen() -> None:
    other: Setting = (("AUTHOR", 0.5),)
    corpus = {
        UNCHANGED: [scored("one", 0.4), scored("two", 0.4), scored("three", 0.4)],
        other: [scored("one", 0.0), scored("two", 0.0), scored("three", 1.0)],
    }
    found = constants.leave_one_out([corpus])
    # Without the third, nothing is gained by the other setting; without another one, it is best.
    assert [(row.conversation, row.recall_10) for row in found.outcomes[0]] == [("one", 0), ("two", 0), ("three", 0.4)]
    assert found.chosen == {UNCHANGED: 1, other: 2}


def test_each_corpus_has_the_same_weight_in_a_choice() -> None:
    other: Setting = (("AUTHOR", 0.5),)
    large = [scored(name, 0.5) for name in "abcd" for _ in range(50)]
    small = [scored("e", 0.5), scored("f", 0.5)]
    found = constants.leave_one_out(
        [
            {UNCHANGED: large, other: [row._replace(recall_10=0.4, ndcg_10=0.4) for row in large]},
            {UNCHANGED: small, other: [row._replace(recall_10=1.0, ndcg_10=1.0) for row in small]},
        ]
    )
    assert found.chosen == {other: 6}


def test_adversarial_questions_are_measured_but_choose_nothing() -> None:
    other: Setting = (("AUTHOR", 0.5),)
    corpus = {
        UNCHANGED: [scored("one", 0.5), scored("two", 0.5), scored("two", 0, "adversarial")],
        other: [scored("one", 0.4), scored("two", 0.4), scored("two", 1, "adversarial")],
    }
    found = constants.leave_one_out([corpus])
    assert found.chosen == {UNCHANGED: 2}
    assert len(found.outcomes[0]) == 3


def test_one_conversation_cannot_be_left_out() -> None:
    with pytest.raises(UsageError, match="one conversation cannot be left out"):
        constants.leave_one_out([{UNCHANGED: [scored("one", 1)]}])

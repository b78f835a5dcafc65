"""Results reach a model as short text, and a long one says what was left out."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from runtime.tools.model.output import result_text, shortened
from runtime.tools.patterns import WITHHELD, NewSecret


class Result(BaseModel):
    """A result."""

    text: str
    none: str | None = None
    rows: list[dict[str, Any]] = []
    inner: list[Result] = []


def test_a_result_is_json_in_one_line_without_its_empty_fields_but_with_the_nulls_of_data() -> None:
    result = Result(text="é\n", rows=[{"a": None, "b": [None, {"c": None}]}], inner=[Result(text="x")])
    assert result_text(result, 200) == (
        '{"text":"é\\n","rows":[{"a":null,"b":[null,{"c":null}]}],"inner":[{"text":"x","rows":[],"inner":[]}]}'
    )


class Made(BaseModel):
    """A result with a secret."""

    secret: NewSecret
    inner: list[Made] = []


def test_a_secret_that_a_tool_made_is_withheld_from_an_agent_and_not_from_a_caller() -> None:
    made = Made(secret="whsec_1", inner=[Made(secret="whsec_2"), Made(secret=None)])
    assert "whsec_" not in result_text(made, 500)
    assert result_text(made, 500).count(WITHHELD) == 2
    # Of a rotation there is no other note.
    assert "`symbi webhook secret` shows it to a person" in WITHHELD
    assert made.model_dump(mode="json")["inner"][0]["secret"] == "whsec_2"
    schema = Made.model_json_schema(mode="serialization")["$defs"]["Made"]["properties"]["secret"]
    assert schema["anyOf"] == [{"type": "string"}, {"type": "null"}]


def test_a_long_result_is_cut_in_its_middle_with_a_note() -> None:
    found = result_text(Result(text="x" * 5000), 200)
    assert len(found) <= 200
    assert found.startswith('{"text":"xxx')
    assert found.endswith('"inner":[]}')
    assert re.search(r"… \[4,\d{3} characters left out\] …", found)


@given(text=st.text(max_size=300), longest=st.integers(min_value=40, max_value=200))
def test_a_shortened_text_counts_what_is_left_out(text: str, longest: int) -> None:
    found = shortened(text, longest)
    assert len(found) <= longest
    if found == text:
        return
    begin, count, end = re.fullmatch(r"(.*)… \[(\d+) characters left out\] …(.*)", found, re.DOTALL).groups()  # type: ignore[union-attr]
    assert text.startswith(begin)
    assert text.endswith(end)
    assert len(begin) + int(count) + len(end) == len(text)

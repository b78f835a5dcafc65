"""Kinds of failures, each in one line that a model can act on."""

from __future__ import annotations

from asyncio import CancelledError

import pytest

from runtime.database.errors import Unavailable
from runtime.errors import Conflict, NotFound, SymbiontError, UsageError
from runtime.identity.caller import Caller, Forbidden
from runtime.memory.collection.errors import StoreAway
from runtime.memory.errors import NoSuchItem, RefusedItem, StoreBusy, StoreError, Unsupported
from runtime.metrics.metrics import TOOL_CALLS
from runtime.search.errors import EmbeddingMismatch, EmbeddingUnavailable, IndexFailed
from runtime.tables.errors import QuotaExceeded, StatementError, TablesUnavailable
from runtime.tools import TOOLS
from runtime.tools.failure import CODES, Code, failure_of, outcome_of, wrong
from runtime.tools.tool import WrongParameters
from tests.runtime.tools.asking import line

SEARCH, PUSH = TOOLS["search"], TOOLS["push"]


@pytest.mark.parametrize(
    ("error", "read", "written"),
    [
        (UsageError("x"), "invalid_params", "invalid_params"),
        (NotFound("x"), "not_found", "not_found"),
        (NoSuchItem("x"), "not_found", "not_found"),
        (RefusedItem("x"), "invalid_params", "invalid_params"),
        (Unsupported("x"), "conflict", "conflict"),
        (Conflict("x"), "conflict", "conflict"),
        (Forbidden("write"), "forbidden", "forbidden"),
        (StatementError("x"), "invalid_params", "invalid_params"),
        (QuotaExceeded("x"), "quota_exceeded", "quota_exceeded"),
        (TablesUnavailable("x"), "provider_unavailable", "provider_unavailable"),
        (IndexFailed("x"), "provider_unavailable", "provider_unavailable"),
        (EmbeddingUnavailable("x"), "provider_unavailable", "provider_unavailable"),
        (EmbeddingMismatch("x"), "provider_unavailable", "provider_unavailable"),
        (Unavailable("x"), "provider_unavailable", "upsert_failed"),
        (StoreAway("x"), "provider_unavailable", "upsert_failed"),
        (StoreBusy("x"), "provider_unavailable", "upsert_failed"),
        (StoreError("x"), "provider_unavailable", "upsert_failed"),
        (SymbiontError("x"), "provider_unavailable", "upsert_failed"),
    ],
)
def test_the_kind_says_whether_to_ask_otherwise_or_again(error: SymbiontError, read: Code, written: Code) -> None:
    assert failure_of(error, SEARCH).code == failure_of(error, None).code == read
    assert failure_of(error, PUSH).code == written


def test_a_failure_is_one_line_with_field_and_a_right_example() -> None:
    problems = ((("limit",), "it is too small"), (("tags", 1), "it is no text"))
    failure = failure_of(WrongParameters("search", problems), SEARCH)
    assert line(failure) == ('invalid_params: limit: it is too small; tags.1: it is no text. For example: {"limit": 5}')
    assert failure.json() == {
        "code": "invalid_params",
        "message": "it is too small; tags.1: it is no text",
        "field": "limit",
        "example": {"limit": 5},
    }


def test_an_alias_is_answered_with_an_example_of_what_it_stands_for() -> None:
    failure = failure_of(WrongParameters("search", ((("k",), "it is too small"),)), SEARCH)
    assert (failure.field, failure.example) == ("k", {"limit": 5})


def test_what_a_function_finds_wrong_has_its_own_example_and_hint() -> None:
    failure = failure_of(wrong("dimension", "it is another", hint="leave it out", example=384), TOOLS["new-collection"])
    assert line(failure) == 'invalid_params: dimension: it is another (leave it out). For example: {"dimension": 384}'
    assert failure_of(wrong("items.3.text", "x"), PUSH).field == "items.3.text"


def test_where_files_and_services_are_is_told_to_administrators_alone() -> None:
    error = IndexFailed("/srv/symbiont/index.db is damaged", hint="delete /srv/symbiont/index.db")
    assert "/srv" in line(failure_of(error, SEARCH, Caller("root", frozenset({"admin"}))))
    told = failure_of(error, SEARCH, Caller("ada", frozenset({"write"})))
    assert "/srv" not in line(told)
    assert told.code == "provider_unavailable"
    assert told.hint


def test_each_end_of_a_call_is_one_that_metrics_count() -> None:
    ends = (None, UsageError("x"), CancelledError(), ValueError("x"))
    assert [outcome_of(each, SEARCH) for each in ends] == ["done", "invalid_params", "cancelled", "failed"]
    assert set(TOOL_CALLS) == {"done", *CODES, "cancelled", "failed"}

"""Every rule of recovery is optional: without any one of them a broken text still compiles to diagnostics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NoReturn

import pytest
from lark import Token

from dslc import recovery
from dslc.compiler import analyse
from dslc.recovery import ERROR_RULES, TOKEN_RULES
from dslc.recovery.state import RecoveryState
from dslc.source import Source
from tests.dslc.catalogs import CATALOG
from tests.dslc.recovery.mistakes import slips
from tests.dslc.recovery.test_recovery import CASES

_Rule = Callable[[RecoveryState, Token], bool]
_RULES: list[_Rule] = [*TOKEN_RULES, *ERROR_RULES]
_EVERY = 100  # of all mistakes
_MOST = 5  # texts for one rule


def _check(texts: list[str]) -> None:
    for text in texts:
        assert analyse([Source("a", text)], CATALOG, build=False).diagnostics, text


def _texts(number: int) -> list[str]:
    return [slip.text for slip in slips()[number::_EVERY]]


@cache
def _texts_by_rule() -> Mapping[_Rule, Sequence[str]]:
    """Return a few texts for each rule in which it applies."""
    found: dict[_Rule, list[str]] = {rule: [] for rule in _RULES}
    applied: set[_Rule] = set()

    def noted(rule: _Rule) -> _Rule:
        def apply(state: RecoveryState, token: Token) -> bool:
            applies = rule(state, token)
            if applies:
                applied.add(rule)
            return applies

        return apply

    with pytest.MonkeyPatch.context() as patch:
        for name, rules in (("TOKEN_RULES", TOKEN_RULES), ("ERROR_RULES", ERROR_RULES)):
            patch.setattr(recovery, name, tuple(map(noted, rules)))
        for text in (*(text for text, _ in CASES), *_texts(0)):
            applied.clear()
            analyse([Source("a", text)], CATALOG, build=False)
            for rule in applied:
                found[rule].append(text)
    return {rule: texts[:_MOST] for rule, texts in found.items()}


@pytest.mark.parametrize("rule", _RULES, ids=lambda rule: rule.__name__)
def test_every_rule_can_be_left_out(rule: _Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = _texts_by_rule()[rule]
    assert texts
    for name, rules in (("TOKEN_RULES", TOKEN_RULES), ("ERROR_RULES", ERROR_RULES)):
        monkeypatch.setattr(recovery, name, tuple(other for other in rules if other is not rule))
    _check([*texts, *_BROKEN])


_BROKEN = [
    "memory m { path",
    'memory m { path "x',
    'memory m { path """x',
    "memory m { path [",
    "agent a { tools [a { b ] }",
    "agent a { tools [= ,, ; }",
    "} ] ) , ; =",
    "memory",
    "memory m",
    "memory m { = = = }",
    "agent a { context { max_tokens",
    "a { " * 100,
    "webhook w { filter [ " * 30,
]


def test_without_any_rule_there_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "TOKEN_RULES", ())
    monkeypatch.setattr(recovery, "ERROR_RULES", ())
    _check(_texts(0))
    _check(_BROKEN)


@pytest.mark.parametrize("table", ["TOKEN_RULES", "ERROR_RULES"])
def test_a_rule_that_repairs_nothing_is_no_endless_loop(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def idle(_state: RecoveryState, _token: Token) -> bool:
        return True

    monkeypatch.setattr(recovery, table, (idle,))
    _check(_texts(1)[:5])
    _check(_BROKEN)


def test_no_rule_feeds_what_the_grammar_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(state: RecoveryState) -> NoReturn:
        raise AssertionError(state.text)

    monkeypatch.setattr(recovery, "_abandon", refused)
    _check([slip.text for slip in slips()[::100]])
    _check(_BROKEN)


def test_no_rule_is_twice_in_a_table() -> None:
    assert len(set(TOKEN_RULES)) == len(TOKEN_RULES)
    assert len(set(ERROR_RULES)) == len(ERROR_RULES)

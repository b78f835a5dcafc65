"""Diagnostic for a block of an unknown kind."""

from __future__ import annotations

from lark import Token

from dslc.diagnostics.collector import DiagnosticCollector
from dslc.diagnostics.suggestion import nearest, suggestion
from dslc.vocabulary import Vocabulary


def unknown_kind(collector: DiagnosticCollector, word: Token, vocabulary: Vocabulary, *, named: bool) -> str | None:
    """Report a block of an unknown kind. Returns the kind that was probably meant, or None.

    `named`: the block has a name. Otherwise the word may be the name, and the kind missing.
    """
    near = nearest(word, vocabulary.kinds) if named and not collector.full else None
    start, end = word.start_pos or 0, word.end_pos or 0
    fix = collector.fix(f"write `{near}`", (start, end, near)) if near else None
    hint = f"did you mean `{near}`?" if near else suggestion("", vocabulary.kinds, what="blocks")
    collector.add("N201", f"no block is called `{word[:64]}`", word, hint=hint, fix=fix)
    return near

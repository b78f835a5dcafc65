"""Reads on after a syntax error: one diagnostic for each mistake, and everything else as it was meant.

lark is fed token by token. Before a token goes in, what the structure says about it is asked (foresight: a brace that
is missing shows in the indentation and in which settings are legal where); a token that lark does not take is explained
by the first rule that fits, and the rule mends: it feeds what is missing, or leaves out what is too much.

A rule looks ahead no further than the line it is about, or goes over the piece once.
"""

from __future__ import annotations

from collections.abc import Callable

from lark import Token, UnexpectedToken

from dslc.diagnostics.collector import Findings
from dslc.recovery import bodies, braces, foreign_syntax, heads, lines, lists, strings, unquoted_text, values
from dslc.recovery.state import Mended, Mender
from dslc.syntax.tree import BlockNode
from dslc.vocabulary import Vocabulary

__all__ = ["Mended", "mend"]

_MOST = 1000  # errors after which the rest of a piece is not read

_Rule = Callable[[Mender, Token], bool]
_FORESIGHT: tuple[_Rule, ...] = (
    strings.closed_by_next, unquoted_text.doubled_quotes, strings.inner_quotes,
    bodies.other_half, bodies.with_signs, braces.closed_and_opened, heads.before_kind, heads.name_on_two_lines,
    bodies.stands_for_brace, heads.word_before_kind, heads.name_below, heads.torn_name, braces.head_twice,
    foreign_syntax.comment, foreign_syntax.conflict, foreign_syntax.dashes, foreign_syntax.no_name,
    braces.too_deep, braces.brace_on_next_line, bodies.indentation_ends, braces.body_ends_by_indentation,
    braces.other_brace, braces.closes_too_early, braces.opens_nothing, bodies.brace_is_missing,
    lines.word_before_key, lines.no_setting,
    strings.not_opened,
    lists.bracket_is_missing, values.key_twice, values.key_as_value, values.sign_word,
    unquoted_text.other_quotes, values.parentheses, values.sign, values.instead_of_braces,
    foreign_syntax.text_below, unquoted_text.without_quotes, lists.bad_list_ahead,
)  # fmt: skip
"""What the structure says about a token before it goes in."""
_EXPLANATIONS: tuple[_Rule, ...] = (
    strings.unclosed_string, strings.single_quotes, values.sign,
    values.semicolon, values.no_value_here,
    braces.end_of_text, braces.stray_brace, values.comma, values.quoted_key, heads.incomplete_head,
    values.anything_else,
)  # fmt: skip
"""What is wrong with a token that lark did not take."""


def mend(findings: Findings, text: str, vocabulary: Vocabulary, line: int, following: str, headless: bool) -> Mended:
    """Read a piece that has a syntax error; what is wrong goes into `findings`.

    `text`: the piece as it is read, with blanks for what cannot be seen.
    `line`: the number of its first line. `following`: the first word of the next piece, when that begins where a body
    of this one was still open. `headless`: it is a body without the head of its block.
    """
    mender = Mender(findings, text, vocabulary, line, following)
    if headless:
        heads.no_head(mender)
    elif not heads.is_foreign(mender):
        _read(mender)
    return mender.done


def _read(mender: Mender) -> None:
    scene = mender.scene
    while True:
        token = mender.peek()
        if len(mender.findings.found) >= _MOST:
            mender.give_up()
            break
        if token.type == "_NL" and scene.breaks:  # what stood between two line ends was left out
            mender.advance()
            continue
        if any(look(mender, token) for look in _FORESIGHT):
            continue
        if token.type == "$END" and not scene.frames and not scene.head and not scene.lists:
            break
        try:
            mender.state.feed_token(token)
        except UnexpectedToken:
            any(explain(mender, token) for explain in _EXPLANATIONS)
        else:
            scene.take(token)
            mender.advance()
    blocks: tuple[BlockNode, ...] = mender.state.feed_token(Token("$END", ""))
    mender.done.blocks += [block for block in blocks if block.start_pos not in mender.void]

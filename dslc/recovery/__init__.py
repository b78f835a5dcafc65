"""Reads on after a syntax error: one diagnostic for each mistake, and everything else as it was meant.

A file is split into pieces, usually blocks, before anything is parsed (`dslc.syntax.splitter`). A piece that lark
parses never comes here. In any other, lark is fed token by token:

1. Each rule of `TOKEN_RULES` looks at the next token before lark sees it. It knows what the structure tells: open bodies,
   settings that are legal here, indentation, the number of braces that are missing or too many.
2. If none of them applies, lark gets the token. If lark refuses it, the first rule of `ERROR_RULES` that applies
   explains it.
3. If no rule explains it, it is reported as unexpected, and the rest of its line is left out.

**A rule** is a function of the state and the next token. It returns False and has changed nothing, or it has reported
one mistake, has repaired it, and returns True. A repair is one or more of these: leave out tokens (`advance`, `drop`,
`skip_entry`, `seek`), put another token in their place (`insert`, `replace`), feed lark what the text lacks (`feed`,
`feed_missing_value`, `abandon_head`). A rule that feeds or leaves out a brace corrects `missing` or `excess`; one that
goes on inside a string calls `rescan`, which counts the braces again. It adds to `recovered.damaged` what lost a part, so
that nothing is called missing there, and to `recovered.mentions` the words that it left out, so that no name in them is
called unused or undeclared. Only the rule that owns a set of places reads it: `closing_signs` (`closing_sign`), `closing_braces` and
`instead` (`closing_word`), `by_indentation` (`end_of_indentation`). A message never shows a value that may be a
secret.

**Order.** Rules for quotes come first, since a wrong quote moves all later tokens; then heads, foreign syntax,
braces, keys, values and lists. Within a group the narrow rule comes before the wide one: `inner_quotes` before
`without_quotes`, `key_twice` before `key_as_value`. Lists are checked as a whole before their first token
(`invalid_list`), since lark cannot take one back. A rule looks no further than the line or list that it is about,
or goes over the piece once.

**Termination.** The position of the next token never goes back. After `_MAX_STEPS` steps at one position no rule is
asked there any more, so the token is taken or left out. A piece with `_MAX_ERRORS` mistakes is given up. If a rule feeds a
token that lark refuses, the whole piece is left out. So no rule is needed for an answer: tests leave out each in turn.

**To add a rule,** first add the mistake to `tests/dslc/recovery/mistakes.py` or a case to `test_recovery.py`, and see
what is said without the rule. It is worth its lines if one mistake gives several diagnostics or a wrong one.
"""

from __future__ import annotations

from collections.abc import Callable

from lark import Token, UnexpectedToken

from dslc.diagnostics.collector import DiagnosticCollector
from dslc.recovery import bodies, braces, foreign_syntax, heads, lines, lists, strings, unquoted_text, values
from dslc.recovery.state import Recovered, RecoveryState, words
from dslc.syntax.section import MAX_DEPTH
from dslc.syntax.tree import BlockNode
from dslc.vocabulary import Vocabulary

__all__ = ["Recovered", "recover"]

_MAX_ERRORS = 1000  # errors after which the rest of a piece is not read
_MAX_STEPS = 4 * MAX_DEPTH  # at one place; after so many, no rule is asked there any more

_Rule = Callable[[RecoveryState, Token], bool]
TOKEN_RULES: tuple[_Rule, ...] = (
    strings.closed_by_next, unquoted_text.doubled_quotes, strings.inner_quotes,
    bodies.closing_sign, bodies.signs_at_brace, braces.closed_and_opened, heads.word_before_head, heads.name_on_two_lines,
    bodies.closing_word, heads.name_below, heads.malformed_name,
    foreign_syntax.comment, foreign_syntax.merge_conflict, foreign_syntax.dash_list, foreign_syntax.invalid_name,
    braces.too_deep, braces.brace_on_next_line, bodies.end_of_indentation, braces.body_ends_by_indentation,
    braces.wrong_closing_sign, braces.early_closing_brace, braces.extra_opening_brace, bodies.missing_brace,
    lines.word_before_key, lines.not_a_setting,
    strings.not_opened,
    lists.missing_bracket, values.key_twice, values.key_as_value,
    unquoted_text.other_quotes, values.parentheses, values.sign, values.group_without_braces,
    foreign_syntax.multiline_text, unquoted_text.without_quotes, lists.invalid_list,
)  # fmt: skip
"""Asked about each token before lark gets it."""
ERROR_RULES: tuple[_Rule, ...] = (
    strings.unclosed_string, values.sign,
    values.separator, values.missing_value,
    braces.end_of_text, braces.stray_brace, values.quoted_key, heads.incomplete_head,
)  # fmt: skip
"""Asked about a token that lark refuses."""


def recover(
    collector: DiagnosticCollector, text: str, vocabulary: Vocabulary, line: int, following: str, headless: bool
) -> Recovered:
    """Read a piece that has a syntax error; what is wrong goes into `collector`.

    `text`: the piece as it is read, with blanks for what cannot be seen.
    `line`: the number of its first line. `following`: the first word of the next piece, when that begins where a body
    of this one was still open. `headless`: it is a body without the head of its block.
    """
    state = RecoveryState(collector, text, vocabulary, line, following)
    if headless:
        heads.no_head(state)
    elif not heads.is_foreign(state):
        _read(state)
    return state.recovered


def _read(state: RecoveryState) -> None:
    try:
        _feed_all(state)
        blocks: tuple[BlockNode, ...] = state.lark.feed_token(Token("$END", ""))
    except UnexpectedToken:  # a rule fed what the grammar refuses there
        _abandon(state)
    else:
        state.recovered.blocks += [block for block in blocks if block.start_pos not in state.discarded_heads]


def _feed_all(state: RecoveryState) -> None:
    parser_state, at, steps = state.parser_state, 0, 0
    while True:
        token = state.peek()
        start = token.start_pos or 0
        at, steps = (start, 0) if start > at else (at, steps + 1)
        if len(state.collector.found) >= _MAX_ERRORS:
            state.give_up()
            return
        if token.type == "_NL" and parser_state.at_line_start:  # what stood between two line ends was left out
            state.advance()
            continue
        if steps < _MAX_STEPS and any(look(state, token) for look in TOKEN_RULES):
            continue
        if token.type == "$END" and not parser_state.frames and not parser_state.head and not parser_state.lists:
            return
        try:
            state.lark.feed_token(token)
        except UnexpectedToken:
            if steps < _MAX_STEPS and any(explain(state, token) for explain in ERROR_RULES):
                continue
            values.unexpected(state, token)
            if token.type == "$END":
                state.give_up()
                return
            state.skip_entry()
        else:
            parser_state.consume(token)
            state.advance()


def _abandon(state: RecoveryState) -> None:
    """Leave out the whole piece, with one diagnostic at least."""
    if not state.collector.found:
        values.unexpected(state, state.peek())
    state.recovered.mentions |= words(state.text[:100_000])
    state.recovered.nameless |= set(state.vocabulary.kinds)

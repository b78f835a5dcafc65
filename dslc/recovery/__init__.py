"""Error recovery: continues after a syntax error, with one diagnostic for each mistake and everything else preserved.

A file is split into sections, usually blocks, before parsing (`dslc.syntax.splitter`). Sections that lark parses never
come here. For any other section, lark is fed token by token:

1. Each rule of `TOKEN_RULES` inspects the next token before lark gets it. The rules use the structure: open bodies,
   settings allowed at this position, indentation, the number of missing or extra braces.
2. If no rule applies, lark gets the token. If lark rejects it, the first rule of `ERROR_RULES` that applies
   explains it.
3. If no rule explains it, it is reported as unexpected, and the rest of its line is skipped.

**A rule** is a function of the state and the next token. It either returns False and has changed nothing, or has
reported one mistake and repaired it, and returns True. A repair is one or more of these: skip tokens (`advance`,
`drop`, `skip_entry`, `seek`), insert or replace a token (`insert`, `replace`), feed lark a token that the text lacks
(`feed`, `feed_missing_value`, `abandon_head`). A rule that feeds or skips a brace updates `missing` or `excess`; a rule
that continues inside a string calls `rescan`, which counts the braces again. Bodies that lost a part are added to
`recovered.damaged`, so that nothing is reported missing there. Skipped words are added to `recovered.mentions`
(`mention`, `drop`), so that no name among them is reported as unused or undeclared. Sets of positions remember a repair
until its rule can complete it: `closing_signs` for `closing_sign`, `closing_words` and `by_closing_word` for
`closing_word`. A message never shows a value that may be a secret.

**Order.** Rules for quotes come first, because a wrong quote shifts all later tokens; then heads, foreign syntax,
braces, keys, values and lists. `unopened_string` and `other_quotes` need a key and come with the values. The second
halves of reported pairs (`closing_sign`, `closing_word`) come before the rules that would report them. Within a group,
the narrower rule comes first: `inner_quotes` before `without_quotes`, `key_twice` before `key_as_value`. A list is
checked as a whole before its first token (`invalid_list`), because tokens cannot be taken back from lark. `quoted_key`
and `misplaced_string` come last: lark accepts a string as a key in any body, because its grammar does not know which
ones are maps. Of the error rules, `unclosed_string` comes first, because an unclosed string contains the rest of its
line; `incomplete_head` comes last, because it fits any token. A rule inspects only the line or list that it is about,
or scans the section once.

**Termination.** The position of the next token never decreases. After `_MAX_STEPS` steps at one position no more rules
are tried there, so the token is consumed or skipped. A section with `_MAX_ERRORS` mistakes is given up. If a rule feeds
a token that lark rejects, the whole section is skipped. So the parser terminates without any particular rule: tests
leave out each rule in turn.

**To add a rule,** first add the mistake to `tests/dslc/recovery/mistakes.py`, or a case to `test_recovery.py`, and look
at the diagnostics without the rule. A rule is justified if a mistake that people often make gives several diagnostics
or a wrong one without it; general words are good enough for rare mistakes.
"""

from __future__ import annotations

from collections.abc import Callable

from lark import Token, UnexpectedToken

from dslc.diagnostics.collector import DiagnosticCollector
from dslc.recovery import bodies, braces, foreign_syntax, heads, lists, strings, unquoted_text, values
from dslc.recovery.state import RecoveryResult, RecoveryState
from dslc.syntax.section import MAX_DEPTH
from dslc.syntax.tree import BlockNode
from dslc.vocabulary import Vocabulary

__all__ = ["RecoveryResult", "recover"]

_MAX_ERRORS = 1000  # errors after which the rest of a section is not read
_MAX_STEPS = 4 * MAX_DEPTH  # at one position; after these, no rule is tried there

_Rule = Callable[[RecoveryState, Token], bool]
TOKEN_RULES: tuple[_Rule, ...] = (
    strings.inner_quotes, bodies.closing_sign, bodies.signs_at_brace, braces.reversed_braces,
    heads.word_before_head, bodies.closing_word, heads.malformed_name,
    foreign_syntax.comment, foreign_syntax.merge_conflict, heads.invalid_name,
    braces.too_deep, braces.brace_on_next_line, braces.body_ends_by_indentation,
    braces.wrong_closing_sign, braces.early_closing_brace, braces.extra_opening_brace, bodies.missing_brace,
    strings.unopened_string, lists.missing_bracket, values.key_twice, values.key_as_value,
    unquoted_text.other_quotes, values.parentheses, values.sign, unquoted_text.without_quotes,
    lists.invalid_list, values.quoted_key, values.misplaced_string,
)  # fmt: skip
"""Tried for each token before lark gets it."""
ERROR_RULES: tuple[_Rule, ...] = (
    strings.unclosed_string, values.separator, values.missing_value,
    braces.end_of_text, braces.stray_brace, heads.incomplete_head,
)  # fmt: skip
"""Tried for a token that lark rejects."""


def recover(
    collector: DiagnosticCollector, text: str, vocabulary: Vocabulary, line: int, following: str, headless: bool
) -> RecoveryResult:
    """Parse a section that has a syntax error; diagnostics are added to `collector`.

    `text`: the section, with blanks for invisible characters. `line`: number of its first line. `following`: head of
    the next section, if that begins where a body of this one is still open. `headless`: the section is a body without
    the head of its block.
    """
    state = RecoveryState(collector, text, vocabulary, line, following)
    if headless:
        heads.no_head(state)
    elif not heads.is_foreign(state):
        _parse(state)
    return state.recovered


def _parse(state: RecoveryState) -> None:
    """Feed lark the whole section and store the blocks of the result."""
    try:
        _feed_all(state)
        blocks: tuple[BlockNode, ...] = state.lark.feed_token(Token("$END", ""))
    except UnexpectedToken:  # a rule fed a token that the grammar does not allow there
        _abandon(state)
    else:
        state.recovered.blocks += [block for block in blocks if block.start_pos not in state.discarded_heads]


def _feed_all(state: RecoveryState) -> None:
    """Feed lark the tokens one by one, trying the rules for each as described above."""
    parser_state, at, steps = state.parser_state, 0, 0
    while True:
        token = state.peek()
        start = token.start_pos or 0
        at, steps = (start, 0) if start > at else (at, steps + 1)
        if len(state.collector.found) >= _MAX_ERRORS:
            state.give_up()
            return
        if token.type == "_NL" and parser_state.at_line_start:  # the tokens between two line ends were skipped
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
            values.add_unexpected(state, token)
            if token.type == "$END":
                state.give_up()
                return
            state.skip_entry()
        else:
            parser_state.consume(token)
            state.advance()


def _abandon(state: RecoveryState) -> None:
    """Skip the whole section, with at least one diagnostic."""
    if not state.collector.found:
        values.add_unexpected(state, state.peek())
    state.mention()
    state.recovered.nameless |= set(state.vocabulary.kinds)

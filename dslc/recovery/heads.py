"""Heads of blocks."""

from __future__ import annotations

import re
import unicodedata

from lark import Token

from dslc.blocks.values.names import NAME_RULE, is_name
from dslc.diagnostics.collector import Place
from dslc.diagnostics.suggestion import listing, nearest
from dslc.diagnostics.unknown_kind import unknown_kind
from dslc.recovery.state import RecoveryState, describe_token
from dslc.syntax.block_heads import FOREIGN_KINDS
from dslc.syntax.tokens import WORD
from dslc.syntax.tree import start

_MALFORMED_NAME = re.compile(
    r"(?P<key>(?:name|id)[ \t]*[=:][ \t]*)?"
    r"(?P<open>[\"'`]?)(?P<name>[\w.-]{1,64})(?P<close>[\"'`]?)[ \t]*(?=\{)",
    re.ASCII,
)
_NAME = re.compile(r"(?P<name>[^\s{}\"'#=:(\[](?:[^\n{}\"'#=:(\[]{0,198}[^\s{}\"'#=:(\[])?)[ \t]*\{")
_QUOTES_IN_NAME = re.compile(r'(?P<name>"[^\n{}]{0,200}")[ \t]*\{')
_WORD = re.compile(WORD)


def no_head(state: RecoveryState) -> None:
    """Report settings and a `}` without a block head before them."""
    code, message = "S111", "these settings are outside a block: its head is missing"
    if state.peek().type != "WORD" or (state.peek(1).type == "SIGN" and state.peek(2).type == "_NL"):
        code, message = "S114", "this is not the Symbiont language"
    hint = f"a block is `kind name {{ … }}`; kinds are {listing(state.vocabulary.kinds)}"
    state.collector.add(code, message, state.peek(), hint=hint)
    state.mention()
    state.recovered.nameless |= set(state.vocabulary.kinds)


def is_foreign(state: RecoveryState) -> bool:
    """True if the section is a block of an unknown kind with its own syntax; its kind is the only mistake reported."""
    word = state.peek()
    if word in FOREIGN_KINDS or _takes_arguments(state):
        message = f"the head of this `{word}` does not end in `{{` on its line"
        hint = "write it on one line; only closed parentheses may span lines"
        state.collector.add("S111", message, word, hint=hint)
        state.mention()
        return True
    if word.type != "WORD" or word in state.vocabulary.kinds or "{" not in state.text:
        return False
    named = state.peek(1).type in {"WORD", "STRING"}
    if nearest(word, state.vocabulary.kinds) is not None or state.peek(1 + named).type == "SIGN":
        return False
    strange = any(state.peek(number).type == "JUNK" for number in (1, 2, 3))
    if state.peek(1 + named).type == "LBRACE" or strange:
        unknown_kind(state.collector, word, state.vocabulary, named=named)
        state.mention()
        return True
    return False


def _takes_arguments(state: RecoveryState) -> bool:
    """True for `agent x(…) … {` of the wider language with an unreadable part in its head."""
    follows = state.peek(2)
    opens = follows.type == "JUNK" and follows[0] in "(<" and state.peek(3).type != "LBRACE"
    return state.peek() == "agent" and opens and "{" in state.text


def word_before_head(state: RecoveryState, token: Token) -> bool:
    """`[ memory m {`, `resource "memory" m {`: a sign or word before a head."""
    parser_state, kind = state.parser_state, state.peek(1)
    word, bare = token.type == "WORD", kind.strip('"')
    if (
        parser_state.frames
        or parser_state.head
        or not (word or token.type in {"JUNK", "LSQB", "RSQB", "_COMMA", "SIGN"})
    ):
        return False
    named = state.peek(2).type in {"WORD", "STRING"} or not word
    if bare not in state.vocabulary.kinds or not named or state.peek(3).type != "LBRACE":
        return False
    if (word and token in state.vocabulary.kinds) or (not word and kind.type != "WORD"):
        return False
    fix = state.collector.fix("remove it", (start(token), start(kind), ""), safe=not word)
    message, hint = f"unexpected {describe_token(token)} before `{bare}`", f"write `{bare} {state.peek(2)[:80]} {{`"
    code = "S109" if word else "S112"
    state.collector.add(code, message, token, hint=hint, fix=fix if kind.type == "WORD" else None)
    state.drop()
    state.replace(Token("WORD", bare, start_pos=kind.start_pos, end_pos=kind.end_pos))
    return True


def malformed_name(state: RecoveryState, token: Token) -> bool:
    """`memory "m {`, `memory name="m" {`: a name with one quote, or with a key."""
    parser_state = state.parser_state
    types = {"WORD", "NUMBER", "SINGLE_QUOTED", "UNCLOSED_STRING"}
    if parser_state.frames or len(parser_state.head) != 1 or (token.type not in types and "{" not in token):
        return False
    found = _MALFORMED_NAME.match(state.text, token.start_pos or 0)
    if found is None or (found["open"] == found["close"] and not found["key"]):
        return False
    (start, end), (first, last) = found.span("name"), (found.start(), found.end("close"))
    fix = state.collector.fix("write the name", (first, last, f'"{found["name"]}"'), safe=not found["key"])
    code, message = "S102", 'this name has only one `"`'
    if found["key"]:
        code, message = "S112", f"unexpected `{found['key'].strip()}` before the name"
    hint = f'write `{parser_state.head[0][:80]} "{found["name"]}" {{`'
    state.collector.add(code, message, Place(first, last), hint=hint, fix=fix)
    state.rescan(found.end())
    state.insert(Token("STRING", f'"{found["name"]}"', start_pos=start, end_pos=end))
    return True


def invalid_name(state: RecoveryState, token: Token) -> bool:
    """`memory team/mem {`, `agent a.b {`, `agent "a "b" c" {`: a name that is invalid or needs quotes."""
    parser_state = state.parser_state
    if parser_state.frames or len(parser_state.head) != 1 or parser_state.head[0] not in state.vocabulary.kinds:
        return False
    found = _NAME.match(state.text, start(token)) if token.type in {"WORD", "NUMBER", "JUNK"} else None
    if token.type == "STRING" and state.peek(1).start_pos == token.end_pos:
        found = _QUOTES_IN_NAME.match(state.text, start(token))
    if found is None or _WORD.fullmatch(found["name"]):
        return False
    name, (at, end_pos) = found["name"], found.span("name")
    quoted = is_name(name)
    other = _in_ascii(name)
    hint = f'write `{parser_state.head[0]} "{name}" {{`' if quoted else None
    fix = state.collector.fix("put it in quotes", (at, at, '"'), (end_pos, end_pos, '"'), safe=True) if quoted else None
    message = "this name needs quotes" if quoted else "invalid name"
    if hint is None:
        hint = f"such as `{parser_state.head[0]} {other} {{`" if other else f"a name has {NAME_RULE}"
    state.collector.add("N206", message, Place(at, end_pos), hint=hint, fix=fix)
    state.seek(end_pos)
    if quoted:
        state.insert(Token("STRING", f'"{name}"', start_pos=at, end_pos=end_pos))
    else:
        state.mention(at, end_pos)
        state.recovered.mentions |= {re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-."), other or name}
        state.feed("WORD", at)
    return True


def _in_ascii(name: str) -> str | None:
    """A valid name similar to this one: without accents, other signs replaced by `-`. None if a letter has no ASCII
    base."""
    plain = "".join(sign for sign in unicodedata.normalize("NFKD", name) if not unicodedata.combining(sign))
    if any(sign.isalnum() and not sign.isascii() for sign in plain):
        return None
    other = re.sub(r"[^A-Za-z0-9_.-]+", "-", plain).strip("-.")
    return other if _WORD.fullmatch(other) and is_name(other) else None


def incomplete_head(state: RecoveryState, token: Token) -> bool:
    """A head without its `{`."""
    parser_state = state.parser_state
    if parser_state.frames or not parser_state.head:
        return False
    _add_incomplete_head(state, token)
    if len(parser_state.head) == 1 and token.type in {"NUMBER", "JUNK", "LONG_STRING", "LSQB"}:
        state.feed_missing_value()  # an invalid name
    while state.peek().type not in {"LBRACE", "RBRACE", "_NL", "$END"}:
        state.drop()
    if state.peek().type == "LBRACE":
        return True
    last = parser_state.head[-1].end_pos or 0
    if (
        state.after_line_end() in parser_state.body_settings(parser_state.head)
        and state.after_line_end(1).type != "LBRACE"
    ):
        state.feed("LBRACE", last)
        state.excess -= state.excess > 0
    else:
        state.abandon_head()
    return True


def _add_incomplete_head(state: RecoveryState, token: Token) -> None:
    """Report a head without `{`; the hint depends on its first word."""
    parser_state = state.parser_state
    word, end = parser_state.head[0][:64], parser_state.head[-1].end_pos or 0
    place = token if token.type not in {"_NL", "$END"} else Place(end, end + 1)
    what = f"`{state.shown_head(parser_state.head)}`"
    hint = f"a block is {what[:-1]} {{ … }}`" if len(parser_state.head) > 1 else f"a block is {what[:-1]} name {{ … }}`"
    owner = next((kind for kind, settings in state.vocabulary.kinds.items() if word in settings), None)
    if word not in state.vocabulary.kinds:
        hint = f"blocks are {listing(state.vocabulary.kinds)}"
        if owner:
            hint = f"`{word}` is a setting of `{owner}`: write it inside its braces"
        else:  # it may be part of a secret's value
            what = "this word"
    state.collector.add("S111", f"`{{` is missing after {what}", place, hint=hint)

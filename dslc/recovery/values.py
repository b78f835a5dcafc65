"""Keys and values, and signs between them."""

from __future__ import annotations

import re

from lark import Token

from dslc.diagnostics.collector import Place
from dslc.diagnostics.suggestion import listing, nearest
from dslc.example import example
from dslc.recovery.state import ENDS, VALUES, RecoveryState, describe_token
from dslc.recovery.strings import add_single_quotes
from dslc.setting import NAME_TYPES
from dslc.syntax.delimiters import entry_end

_WORD_TYPES = {*NAME_TYPES, "boolean"}  # types of settings whose value may be a word without quotes
# A sign in place of `=` with a value after it: `->`, `=>`, `:=`, `-`, `—`, `,,`, `;`.
_OTHER_SIGN = re.compile(r"([-=~]>|:=|<-|==?>?|[→⇒]|[-—–;,~|.:=<>]{1,3}(?=[ \t\"\[]))[ \t]*+[\"\w\[$/@.]")
_COMMENT = re.compile(r"(--|;;?(?=[ \t])|%(?=[ \t])|<!--)")
_SIGN_WORDS = {"is", "to", "be", "as", "equals"}
# The same before `{`.
_HEAD_SIGN = re.compile(r"([-=~:<>|,;.→⇒]{1,3})(?=[ \t]*+\{)")
_BRACKETS = re.compile(
    r"\(\{[^\n(){}]{0,500}\}\)|\([^\n(){}]{0,500}\)|<[^\n<>{}]{0,500}>"
    r"|\{[ \t]*(?:(?:\"[^\"\n]{0,500}\"|\[[^\[\]\n]{0,500}\]|[\w.-]{1,100})(?:[ \t]*,[ \t]*|[ \t]*(?=\}))){1,20}\}"
)


_BRACKET_NAMES = {"(": "parentheses", "<": "angle brackets", "{": "braces"}


def key_as_value(state: RecoveryState, token: Token) -> bool:
    """`json_path equals "opened"`: the word in place of a value is a key, and the key before it has no value."""
    parser_state, after = state.parser_state, state.peek(1)
    legal = parser_state.legal()
    if token.type != "WORD" or not parser_state.expects_value or token not in legal:
        return False
    setting = legal.get(parser_state.head[0])
    names = setting is None or setting.named or setting.type in _WORD_TYPES
    if after.type == "WORD":
        known = after in legal and after not in {"true", "false"}
        mistaken = not names and not known
    elif after.type == "LBRACE":
        mistaken = legal[token].takes_body(1) and not (setting and setting.takes_body(2))
    else:
        mistaken = after.type in {*VALUES, "UNCLOSED_STRING"}
    if mistaken:
        add_missing_value(state)
    return mistaken


def key_twice(state: RecoveryState, token: Token) -> bool:
    """`path path "/x"`: a key that is repeated before its value."""
    parser_state, after = state.parser_state, state.peek(1)
    if (
        token.type != "WORD"
        or not parser_state.expects_value
        or token != parser_state.head[0]
        or token not in parser_state.legal()
    ):
        return False
    if after.type not in VALUES and (after.type != "WORD" or after in parser_state.legal()):
        return False
    fix = state.collector.fix(
        f"remove the second `{token}`", (token.start_pos or 0, after.start_pos or 0, ""), safe=True
    )
    state.advance()
    line = state.shown_entry()
    hint = f"write `{line}`" if line else "remove one"
    state.collector.add("S109", f"`{token}` is written twice", token, hint=hint, fix=fix)
    return True


def missing_value(state: RecoveryState, token: Token) -> bool:
    """A key at the end of its line; its value may be on the next one."""
    if not state.parser_state.expects_value or token.type not in ENDS:
        return False
    follows = token.type == "_NL" and (state.peek(1).type in VALUES or _is_indented_value(state))
    hidden = token.type == "_NL" and not follows and _may_be_secret(state)
    add_missing_value(state, lost=not follows)
    if follows:
        state.advance()
    elif hidden:
        state.recovered.mentions.add(str(state.peek(1)))
        state.seek(entry_end(state.text, state.peek(1).start_pos or 0))
    return True


def _is_indented_value(state: RecoveryState) -> bool:
    """True if the next line is a word that is indented at least as far as the key and cannot be a key."""
    parser_state, word, setting = state.parser_state, state.peek(1), state.parser_state.setting()
    if setting is None or word.type != "WORD" or word in parser_state.legal():
        return False
    words = setting.named or setting.type in _WORD_TYPES
    if not words and not (setting.type == "scalar" and word in {"true", "false"}):
        return False
    column, outer = parser_state.column(word), parser_state.column(parser_state.head[0])
    opens = setting.takes_body(2) and state.peek(2).type == "LBRACE"
    return column is not None and column >= (outer or 0) and (opens or state.peek(2).type in ENDS)


def _may_be_secret(state: RecoveryState) -> bool:
    """True if the next line may begin with the expected value of a secret."""
    word, legal, setting = state.peek(1), state.parser_state.legal(), state.parser_state.setting()
    if setting is None or setting.type != "secret" or word.type != "WORD" or word in legal:
        return False
    return nearest(word, legal) is None


def add_missing_value(state: RecoveryState, *, lost: bool = True) -> None:
    """Report that the expected value is missing. `lost`: the value is not found elsewhere either."""
    key = state.parser_state.head[0]
    # An unknown word, or one in a map, is not shown: it may be a misplaced value.
    setting = None if state.parser_state.in_map else state.parser_state.setting()
    what = f"`{setting.name}`" if setting else "this word"
    hint = f"such as `{example(setting)}`" if setting else "write `key value` on one line"
    end = key.end_pos or 0
    state.collector.add("S101", f"{what} has no value", Place(end, end + 1), hint=hint)
    if setting is None:
        state.damage()
        state.recovered.mentions.add(str(key))
    if lost:
        state.feed_missing_value()


def sign(state: RecoveryState, token: Token) -> bool:
    """`path = "/x"`, `path -> "/x"`, `path is "/x"`: a sign between key and value, or in a head."""
    parser_state, start, end = state.parser_state, token.start_pos or 0, token.end_pos or 0
    word = _is_sign_word(state, token)
    if (
        not (word or token.type in {"SIGN", "JUNK", "_COMMA"})
        or parser_state.at_line_start
        or parser_state.lists
        or not parser_state.head
    ):
        return False
    setting = parser_state.setting()
    options = len(parser_state.head) == 2 and setting is not None and setting.takes_body(2)
    if (parser_state.frames and len(parser_state.head) != 1 and not options) or state.text.startswith("://", start):
        return False
    other = _OTHER_SIGN.match(state.text, start, start + 200) if parser_state.expects_value else None
    if setting is None or setting.type in {"group", "map", "variant"}:
        other = _HEAD_SIGN.match(state.text, start, start + 200) or other
    if other is None and token.type != "SIGN" and not word:
        return False
    end = other.end(1) if other else end
    shown = state.text[start:end] if end - start < 9 else "…"
    unknown = bool(parser_state.frames) and parser_state.head[0] not in parser_state.legal()
    if unknown and state.text[end : end + 1] in {"", "\r", "\n"}:  # trailing signs after an unknown word
        state.seek(end)
        add_missing_value(state)
        return True
    key = "this word" if unknown else f"`{state.shown_head(parser_state.head)}`"  # it may be part of a secret
    after = (
        end + len(state.text[end : end + 80]) - len(state.text[end : end + 80].lstrip(" \t"))
        if end - start < 9
        else end
    )
    spaced = state.text[start - 1 : start].isspace()
    state.seek(end)
    opens = "LBRACE" in {state.peek().type, state.peek(1).type}
    if parser_state.frames or opens:  # otherwise the line is reported as another language
        fix = state.collector.fix(f"remove `{shown}`", (start, after, "" if spaced else " "), safe=True)
        line = state.shown_entry()
        message, hint = f"unexpected `{shown}` after {key}", f"write `{line}`" if line else "remove it"
        state.collector.add("S105", message, Place(start, end), hint=hint, fix=fix)
    if parser_state.expects_value and state.peek().type in ENDS:
        state.feed_missing_value()
    return True


def _is_sign_word(state: RecoveryState, token: Token) -> bool:
    """True for a word that means `=` and is followed by a value."""
    setting, value = state.parser_state.setting() if state.parser_state.expects_value else None, state.peek(1)
    if setting is None or token not in _SIGN_WORDS or token in state.parser_state.legal():
        return False
    if value.type in VALUES:
        return setting.type != "variant"
    ends = state.peek(2).type in {*ENDS, "LBRACE"} or state.peek(2) in state.parser_state.legal()
    return setting.type in {"variant", "word", "boolean"} and value.type == "WORD" and ends


def parentheses(state: RecoveryState, token: Token) -> bool:
    """`path("/x")`, `path { "/x" }`: parentheses or similar signs around a value."""
    if token.type not in {"JUNK", "LBRACE"} or not state.parser_state.expects_value:
        return False
    found = _BRACKETS.match(state.text, token.start_pos or 0)
    setting = state.parser_state.setting()
    is_group = setting is not None and setting.takes_body(1)
    if found is None or is_group or (token.type == "LBRACE" and setting is None):
        return False
    start, end = found.span()
    many = setting is not None and setting.many
    hint = "write the list in `[` and `]`" if many else "remove them"
    pair = ("[", "]") if many else ("", "")
    if not state.text[start - 1 : start].isspace():
        pair = (f" {pair[0]}", pair[1])
    edits = ((start, start + 1, pair[0]), (end - 1, end, pair[1]))
    fix = state.collector.fix("write `[` and `]`" if many else "remove them", *edits, safe=True)
    one = re.fullmatch(r'.[ \t]*(?:"[^"\\]*"|[\w.-]+)[ \t]*.', found[0])
    known = found[0][1] != "{" and not (many and "[" in found[0]) and (many or one is not None)
    message = f"unexpected {_BRACKET_NAMES[found[0][0]]} around a value"
    state.collector.add("S112", message, Place(start, end), hint=hint, fix=fix if known else None)
    state.mention(*found.span())
    state.feed_missing_value()
    state.seek(end)
    return True


def separator(state: RecoveryState, token: Token) -> bool:
    """`;`, or a comma that is not allowed here."""
    parser_state, text, start = state.parser_state, state.text, token.start_pos or 0
    comma = token.type == "_COMMA"
    if not comma:
        if token.type != "JUNK" or not token.startswith(";") or parser_state.expects_value or parser_state.lists:
            return False
        if (parser_state.head and not parser_state.frames) or _comment_sign(
            state, token
        ):  # the text before it is not a block
            return False
    end = start + len(token) - len(token.lstrip(token[0]))
    where = {"RBRACE": " after `}`", "_COMMA": " after another comma", "_NL": " at the beginning of a line"}
    other = " after a value" if parser_state.frames and not comma else ""
    glued = not text[end : end + 1].isspace() and text[end : end + 1] not in {"", "}"}
    what = "comma" if comma else "`;`"
    hint = "remove it; only one comma may follow a value, on the same line" if comma else "remove it"
    fix = state.collector.fix(f"remove {'the comma' if comma else what}", (start, end, " " if glued else ""), safe=True)
    message = f"unexpected {what}{where.get(parser_state.last.type if parser_state.last else '', other)}"
    state.collector.add("S112", message, Place(start, end), hint=hint, fix=fix)
    state.seek(end)
    return True


def quoted_key(state: RecoveryState, token: Token) -> bool:
    """`"path": "/hooks"`, `'path' "/hooks"`: a key in quotes, as in JSON."""
    word = token[1:-1]
    if token.type not in {"STRING", "SINGLE_QUOTED"} or not state.parser_state.expects_entry:
        return False
    if word not in state.parser_state.legal() or state.peek(1).type not in {"SIGN", *VALUES, "WORD", "LBRACE"}:
        return False
    start, end = token.start_pos or 0, token.end_pos or 0
    signed = state.peek(1).type == "SIGN"
    end_pos = (state.peek(1).end_pos or 0) if signed else end
    glued = signed and not state.text[end_pos : end_pos + 1].isspace()
    fix = state.collector.fix(f"write `{word}`", (start, end_pos, f"{word} " if glued else word), safe=True)
    state.collector.add("S112", f"unexpected quotes around `{word}`", token, hint=f"write `{word}`", fix=fix)
    state.advance()
    if signed:
        state.advance()
    state.insert(Token("WORD", word, start_pos=start, end_pos=end))
    return True


def misplaced_string(state: RecoveryState, token: Token) -> bool:
    """`path "/a" "/b"`: a string in place of a key. The keys of a map may be strings, and those of an unknown body."""
    parser_state = state.parser_state
    if token.type != "STRING" or not parser_state.expects_entry:
        return False
    if parser_state.takes_strings and state.peek(1).type not in ENDS:
        return False
    add_unexpected(state, token)
    state.skip_entry()
    return True


def add_unexpected(state: RecoveryState, token: Token) -> None:
    """Report a token that no rule explains."""
    if token.type == "SINGLE_QUOTED":
        add_single_quotes(state, token)
        return
    comment = _comment_sign(state, token)
    if comment:
        place = Place(token.start_pos or 0, entry_end(state.text, token.start_pos or 0))
        state.collector.add("S114", f"`{comment}` does not begin a comment", place, hint="begin each line with `#`")
        return
    if state.parser_state.frames:
        settings = state.parser_state.legal()
        hint = "expected a setting or `}`"
        if state.parser_state.in_map:
            hint = "expected a name and its value, or `}`"
        elif settings:
            hint = f"expected a setting or `}}`; settings here are {listing(settings)}"
    else:
        hint = f"expected a block: {listing(state.vocabulary.kinds)}"
    code = "S112" if token.type in {"JUNK", "SIGN", "LSQB", "RSQB", "LBRACE"} else "S109"
    state.collector.add(code, f"unexpected {describe_token(token)}", token, hint=hint)


def _comment_sign(state: RecoveryState, token: Token) -> str | None:
    """The sign of another language's comment at the beginning of a line, or None."""
    found = _COMMENT.match(state.text, token.start_pos or 0)
    return found[1] if found and state.parser_state.column(token) is not None else None

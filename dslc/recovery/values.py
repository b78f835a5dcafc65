"""Keys and values, and what stands between them."""

from __future__ import annotations

import re

from lark import Token

from dslc.diagnostics.collector import Place
from dslc.diagnostics.suggestion import listing, nearest
from dslc.example import example
from dslc.recovery.state import ENDS, VALUES, Mender, shown, words
from dslc.recovery.strings import add_single_quotes
from dslc.syntax.delimiters import entry_end

_NAMES = {"word", "name", "reference", "variant", "boolean"}  # types of settings whose value may be a bare word
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


def key_as_value(mender: Mender, token: Token) -> bool:
    """`json_path equals "opened"`: the word taken for a value is a key, and what stands before it has none."""
    scene, after = mender.scene, mender.peek(1)
    legal = scene.legal()
    if token.type != "WORD" or not scene.awaits_value or token not in legal:
        return False
    setting = legal.get(scene.head[0])
    names = setting is None or setting.type in _NAMES
    if after.type == "WORD":
        known = after in legal and after not in {"true", "false"}
        mistaken = not names and not known
    elif after.type == "LBRACE":
        mistaken = legal[token].type == "group" and not (setting and setting.type == "variant")
    else:
        mistaken = after.type in {*VALUES, "UNCLOSED_STRING"}
    if mistaken:
        no_value(mender)
    return mistaken


def key_twice(mender: Mender, token: Token) -> bool:
    """`path path "/x"`."""
    scene, after = mender.scene, mender.peek(1)
    if token.type != "WORD" or not scene.awaits_value or token != scene.head[0] or token not in scene.legal():
        return False
    if after.type not in VALUES and (after.type != "WORD" or after in scene.legal()):
        return False
    fix = mender.findings.fix(
        f"remove the second `{token}`", (token.start_pos or 0, after.start_pos or 0, ""), safe=True
    )
    mender.advance()
    line = mender.shown_entry()
    hint = f"write `{line}`" if line else "remove one"
    mender.findings.add("S109", f"`{token}` is written twice", token, hint=hint, fix=fix)
    return True


def no_value_here(mender: Mender, token: Token) -> bool:
    """A key and the end of its line; its value may stand on the next one."""
    if not mender.scene.awaits_value or token.type not in ENDS:
        return False
    follows = token.type == "_NL" and (mender.peek(1).type in VALUES or _is_indented_value(mender))
    hidden = token.type == "_NL" and not follows and _may_be_secret(mender)
    no_value(mender, lost=not follows)
    if follows:
        mender.advance()
    elif hidden:
        mender.done.mentions.add(str(mender.peek(1)))
        mender.seek(entry_end(mender.text, mender.peek(1).start_pos or 0))
    return True


def _is_indented_value(mender: Mender) -> bool:
    """Whether the next line is a word that stands deeper than the key, and cannot be a key."""
    scene, word, setting = mender.scene, mender.peek(1), mender.scene.setting()
    if setting is None or word.type != "WORD" or word in scene.legal():
        return False
    if setting.type not in _NAMES and not (setting.type == "scalar" and word in {"true", "false"}):
        return False
    column, outer = scene.column(word), scene.column(scene.head[0])
    opens = setting.type == "variant" and mender.peek(2).type == "LBRACE"
    return column is not None and column >= (outer or 0) and (opens or mender.peek(2).type in ENDS)


def _may_be_secret(mender: Mender) -> bool:
    """Whether the next line begins with what may be the secret whose value is awaited."""
    word, legal, setting = mender.peek(1), mender.scene.legal(), mender.scene.setting()
    if setting is None or setting.type != "secret" or word.type != "WORD" or word in legal:
        return False
    return nearest(word, legal) is None


def no_value(mender: Mender, *, lost: bool = True) -> None:
    """Note that the awaited value is missing; `lost` when no token gives it either."""
    key = mender.scene.head[0]
    setting = mender.scene.setting()
    # A word that is no setting is not shown: it may be the lost value of one.
    what = f"`{setting.name}`" if setting else "this word"
    hint = f"such as `{example(setting)}`" if setting else "write `key value` on one line"
    end = key.end_pos or 0
    mender.findings.add("S101", f"{what} has no value", Place(end, end + 1), hint=hint)
    if setting is None:
        mender.damage()
        mender.done.mentions.add(str(key))
    if lost:
        mender.value_is_lost()


def sign(mender: Mender, token: Token) -> bool:
    """`path = "/x"`, `path -> "/x"`, `path is "/x"`: a sign between key and value, or in a head."""
    scene, start, end = mender.scene, token.start_pos or 0, token.end_pos or 0
    word = _is_sign_word(mender, token)
    if not (word or token.type in {"SIGN", "JUNK", "_COMMA"}) or scene.breaks or scene.lists or not scene.head:
        return False
    setting = scene.setting()
    options = len(scene.head) == 2 and setting is not None and setting.type == "variant"
    if (scene.frames and len(scene.head) != 1 and not options) or mender.text.startswith("://", start):
        return False
    other = _OTHER_SIGN.match(mender.text, start, start + 200) if scene.awaits_value else None
    if setting is None or setting.type in {"group", "variant"}:
        other = _HEAD_SIGN.match(mender.text, start, start + 200) or other
    if other is None and token.type != "SIGN" and not word:
        return False
    end = other.end(1) if other else end
    shown = mender.text[start:end] if end - start < 9 else "…"
    unknown = bool(scene.frames) and scene.head[0] not in scene.legal()
    if unknown and mender.text[end : end + 1] in {"", "\r", "\n"}:  # the padding of what is no setting
        mender.seek(end)
        no_value(mender)
        return True
    key = "this word" if unknown else f"`{mender.shown_head(scene.head)}`"  # it may be a part of a secret
    after = (
        end + len(mender.text[end : end + 80]) - len(mender.text[end : end + 80].lstrip(" \t"))
        if end - start < 9
        else end
    )
    spaced = mender.text[start - 1 : start].isspace()
    mender.seek(end)
    opens = "LBRACE" in {mender.peek().type, mender.peek(1).type}
    if not mender.is_indented and (scene.frames or opens):  # else that the line is another language's is reported
        fix = mender.findings.fix(f"remove `{shown}`", (start, after, "" if spaced else " "), safe=True)
        line = mender.shown_entry()
        message, hint = f"unexpected `{shown}` after {key}", f"write `{line}`" if line else "remove it"
        mender.findings.add("S105", message, Place(start, end), hint=hint, fix=fix)
    if scene.awaits_value and mender.peek().type in ENDS:
        mender.value_is_lost()
    return True


def _is_sign_word(mender: Mender, token: Token) -> bool:
    """True for a word that means `=` and has a value behind it."""
    setting, value = mender.scene.setting() if mender.scene.awaits_value else None, mender.peek(1)
    if setting is None or token not in _SIGN_WORDS or token in mender.scene.legal():
        return False
    if value.type in VALUES:
        return setting.type != "variant"
    ends = mender.peek(2).type in {*ENDS, "LBRACE"} or mender.peek(2) in mender.scene.legal()
    return setting.type in {"variant", "word", "boolean"} and value.type == "WORD" and ends


def parentheses(mender: Mender, token: Token) -> bool:
    """`path("/x")`, `path { "/x" }`: parentheses or their like around a value."""
    if token.type not in {"JUNK", "LBRACE"} or not mender.scene.awaits_value:
        return False
    found = _BRACKETS.match(mender.text, token.start_pos or 0)
    setting = mender.scene.setting()
    is_group = setting is not None and setting.type == "group"
    if found is None or is_group or (token.type == "LBRACE" and setting is None):
        return False
    start, end = found.span()
    many = setting is not None and setting.many
    hint = "write the list in `[` and `]`" if many else "remove them"
    pair = ("[", "]") if many else ("", "")
    if not mender.text[start - 1 : start].isspace():
        pair = (f" {pair[0]}", pair[1])
    edits = ((start, start + 1, pair[0]), (end - 1, end, pair[1]))
    fix = mender.findings.fix("write `[` and `]`" if many else "remove them", *edits, safe=True)
    one = re.fullmatch(r'.[ \t]*(?:"[^"\\]*"|[\w.-]+)[ \t]*.', found[0])
    known = found[0][1] != "{" and not (many and "[" in found[0]) and (many or one is not None)
    message = f"unexpected {_BRACKET_NAMES[found[0][0]]} around a value"
    mender.findings.add("S112", message, Place(start, end), hint=hint, fix=fix if known else None)
    mender.done.mentions |= words(found[0])
    mender.value_is_lost()
    mender.seek(end)
    return True


def instead_of_braces(mender: Mender, token: Token) -> bool:
    """`limits per_minute 60`, `filter $.action == "opened"`: a group without braces on one line."""
    setting = mender.scene.setting() if mender.scene.awaits_value else None
    if setting is None or setting.type != "group" or token.type not in {"WORD", "NUMBER", "STRING", "JUNK"}:
        return False
    number = 1
    while mender.peek(number).type not in {"_NL", "LBRACE", "RBRACE", "$END"} and number < 50:
        number += 1
    if number == 1 or mender.peek(number).type == "LBRACE":
        return False
    start, end = token.start_pos or 0, mender.peek(number - 1).end_pos or 0
    hint = f"such as `{example(setting)}`"
    mender.findings.add("T401", f"`{setting.name}` takes settings in braces", Place(start, end), hint=hint)
    mender.done.mentions |= words(mender.text[start : min(end, start + 100_000)])
    mender.value_is_lost()
    mender.damage()
    mender.seek(end)
    return True


def separator(mender: Mender, token: Token) -> bool:
    """`;`, or a comma where none may be."""
    scene, text, start = mender.scene, mender.text, token.start_pos or 0
    comma = token.type == "_COMMA"
    if not comma:
        if token.type != "JUNK" or not token.startswith(";") or scene.awaits_value or scene.lists:
            return False
        if (scene.head and not scene.frames) or _comment_sign(mender, token):  # what it ends is no block
            return False
    end = start + len(token) - len(token.lstrip(token[0]))
    where = {"RBRACE": " after `}`", "_COMMA": " after another comma", "_NL": " at the beginning of a line"}
    other = " after a value" if scene.frames and not comma else ""
    glued = not text[end : end + 1].isspace() and text[end : end + 1] not in {"", "}"}
    what = "comma" if comma else "`;`"
    hint = "remove it; one comma may follow a value, on its line" if comma else "remove it"
    fix = mender.findings.fix(f"remove {'the comma' if comma else what}", (start, end, " " if glued else ""), safe=True)
    message = f"unexpected {what}{where.get(scene.last.type if scene.last else '', other)}"
    mender.findings.add("S112", message, Place(start, end), hint=hint, fix=fix)
    mender.seek(end)
    return True


def quoted_key(mender: Mender, token: Token) -> bool:
    """`"path": "/hooks"`, `'path' "/hooks"`: a key in quotes, as in JSON."""
    word = token[1:-1]
    if token.type not in {"STRING", "SINGLE_QUOTED"} or not mender.scene.awaits_entry:
        return False
    if word not in mender.scene.legal() or mender.peek(1).type not in {"SIGN", *VALUES, "WORD", "LBRACE"}:
        return False
    start, end = token.start_pos or 0, token.end_pos or 0
    signed = mender.peek(1).type == "SIGN"
    behind = (mender.peek(1).end_pos or 0) if signed else end
    glued = signed and not mender.text[behind : behind + 1].isspace()
    fix = mender.findings.fix(f"write `{word}`", (start, behind, f"{word} " if glued else word), safe=True)
    mender.findings.add("S112", f"unexpected quotes around `{word}`", token, hint=f"write `{word}`", fix=fix)
    mender.advance()
    if signed:
        mender.advance()
    mender.put(Token("WORD", word, start_pos=start, end_pos=end))
    return True


def unexpected(mender: Mender, token: Token) -> None:
    """Note a token that no rule explains."""
    if token.type == "SINGLE_QUOTED":
        add_single_quotes(mender, token)
        return
    comment = _comment_sign(mender, token)
    if comment:
        place = Place(token.start_pos or 0, entry_end(mender.text, token.start_pos or 0))
        mender.findings.add("S114", f"`{comment}` begins no comment", place, hint="begin each line with `#`")
        return
    if mender.scene.frames:
        settings = mender.scene.legal()
        hint = "expected a setting or `}`"
        if settings:
            hint = f"expected a setting or `}}`; settings here are {listing(settings)}"
    else:
        hint = f"expected a block: {listing(mender.vocabulary.kinds)}"
    code = "S112" if token.type in {"JUNK", "SIGN", "LSQB", "RSQB", "LBRACE"} else "S109"
    mender.findings.add(code, f"unexpected {shown(token)}", token, hint=hint)


def _comment_sign(mender: Mender, token: Token) -> str | None:
    """The sign at the beginning of a line that begins a comment in another language."""
    found = _COMMENT.match(mender.text, token.start_pos or 0)
    return found[1] if found and mender.scene.column(token) is not None else None

"""Names what is wrong where the parser could not go on. A rule knows one mistake; the first that fits explains it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from lark import Token, UnexpectedInput, UnexpectedToken

from dslc.example import example
from dslc.findings import Findings, Place
from dslc.nearest import listing
from dslc.scene import Frame, Scene, scene
from dslc.vocabulary import Vocabulary

_VALUES = {"WORD", "STRING", "LONG_STRING", "NUMBER", "LSQB"}
Rule = Callable[[Scene, Findings, Vocabulary], bool]


class TooDeep(Exception):  # noqa: N818 - a verdict on the text, caught at once
    """A brace or bracket is nested deeper than the language allows."""

    def __init__(self, token: Token) -> None:
        super().__init__()
        self.token = token


def explain(
    error: UnexpectedInput | TooDeep, tokens: Iterable[Token], findings: Findings, vocabulary: Vocabulary
) -> None:
    """Note the one diagnostic for a syntax error. `tokens`: those of the whole text."""
    if isinstance(error, TooDeep):
        findings.add("S108", "nested deeper than 64 levels", error.token, hint="use fewer levels")
        return
    text = findings.source.text or ""
    bad = (
        error.token
        if isinstance(error, UnexpectedToken)
        else Token("JUNK", text[-1:], len(text) - 1, end_pos=len(text))
    )
    if bad.type == "$END":
        bad = Token("$END", "", len(text), end_pos=len(text))
    here = scene(text, tokens, bad)
    for rule in _RULES:
        if rule(here, findings, vocabulary):
            return


def _unclosed_string(here: Scene, findings: Findings, _: Vocabulary) -> bool:
    if here.bad.type == "UNCLOSED_LONG_STRING":
        findings.add("S102", 'the long string is not closed by `"""`', _to_line_end(here, here.bad), hint='add `"""`')
        return True
    if here.bad.type == "UNCLOSED_STRING":
        hint = 'add `"` at its end; a text over several lines stands in `"""`'
        findings.add("S102", "the string is not closed", _to_line_end(here, here.bad), hint=hint)
        return True
    return False


def _single_quotes(here: Scene, findings: Findings, _: Vocabulary) -> bool:
    if here.bad.type != "SINGLE_QUOTED":
        return False
    start, end = here.bad.start_pos or 0, here.bad.end_pos or 0
    closed = len(here.bad) > 1 and here.bad.endswith("'")
    plain = closed and not set('"\\') & set(here.bad)
    fix = findings.fix("use double quotes", (start, start + 1, '"'), (end - 1, end, '"')) if plain else None
    findings.add("S106", "a string stands in double quotes", here.bad, hint='use `"`', fix=fix)
    return True


def _sign(here: Scene, findings: Findings, _: Vocabulary) -> bool:
    start = here.bad.start_pos or 0
    if here.bad.type != "SIGN" or not here.before or here.breaks or here.before[-1].type != "WORD" or here.lists:
        return False
    if len(here.head) != 1 or here.text.startswith("://", start):
        return False
    key = here.head[0]
    fix = findings.fix(f"remove `{here.bad}`", (start, start + 1, "" if _spaced(here) else " "))
    findings.add("S105", f"no `{here.bad}` stands after `{key}`", here.bad, hint="remove it", fix=fix)
    return True


def _spaced(here: Scene) -> bool:
    start, end = here.bad.start_pos or 0, here.bad.end_pos or 0
    return here.text[start - 1 : start].isspace() or here.text[end : end + 1].isspace()


def _brace_on_next_line(here: Scene, findings: Findings, vocabulary: Vocabulary) -> bool:
    if not here.head or here.lists:
        return False
    rest = here.text[here.bad.start_pos or 0 :] if here.bad.type in {"_NL", "LBRACE"} else ""
    brace = len(rest) - len(rest.lstrip(" \t\r\n"))
    if here.bad.type == "LBRACE" and here.breaks:
        brace = 0
    elif here.bad.type != "_NL" or rest[brace : brace + 1] != "{":
        return False
    at = (here.bad.start_pos or 0) + brace
    head = _head(here.head, vocabulary, nested=bool(here.frames))
    shown = f"{head} … {{" if here.frames and len(here.head) > 1 else f"{head} {{"
    findings.add("S109", "`{` does not stand on the line of its head", Place(at, at + 1), hint=f"write `{shown}`")
    return True


def _no_value(here: Scene, findings: Findings, vocabulary: Vocabulary) -> bool:
    if not here.awaits_value or here.bad.type not in {"_NL", "RBRACE", "_COMMA", "$END"}:
        return False
    _add_no_value(here, here.head[0], findings, vocabulary)
    return True


def _key_as_value(here: Scene, findings: Findings, vocabulary: Vocabulary) -> bool:
    """`json_path equals "opened"`: the word taken for a value is a key, and the key before it has none."""
    if here.bad.type not in _VALUES | {"UNCLOSED_STRING"} or not here.frames or here.lists or len(here.head) != 2:
        return False
    key, word = here.head
    legal = vocabulary.at(here.path) or {}
    if word.type != "WORD" or word not in legal or key not in legal:
        return False
    _add_no_value(here, key, findings, vocabulary)
    return True


def _add_no_value(here: Scene, key: Token, findings: Findings, vocabulary: Vocabulary) -> None:
    setting = (vocabulary.at(here.path) or {}).get(key)
    hint = f"such as `{example(setting)}`" if setting else f"a value stands on the line of its key: `{key} …`"
    end = key.end_pos or 0
    findings.add("S101", f"`{key}` has no value", Place(end, end + 1), hint=hint)


def _unclosed_list(here: Scene, findings: Findings, _: Vocabulary) -> bool:
    if not here.lists:
        return False
    opened = here.lists[-1]
    if here.bad.type in {"LBRACE", "RBRACE", "$END"}:
        findings.add("S109", "the list is not closed", opened, hint="add `]`")
        return True
    what = "two commas in a row" if here.bad.type == "_COMMA" else f"{_shown(here.bad)} cannot stand in a list"
    hint = "remove one" if here.bad.type == "_COMMA" else 'words, numbers and strings can; other text stands in `"`'
    findings.add("S109", what, here.bad, hint=hint, labels=[findings.label("the list begins here", opened)])
    return True


def _unclosed_block(here: Scene, findings: Findings, vocabulary: Vocabulary) -> bool:
    if here.bad.type != "$END" or not here.frames:
        return False
    culprit, shown_by = _culprit(here, vocabulary)
    message = f"`{_head(culprit.head, vocabulary, nested=culprit is not here.frames[0])}` is not closed"
    if shown_by is None:
        findings.add("S103", message, culprit.brace, hint="add `}` at the end of the file")
        return True
    what = "this closes an outer block" if shown_by.type == "RBRACE" else "the next block begins here"
    hint = f"add `}}` before line {here.line_of(shown_by)}"
    label = findings.label(what, shown_by)
    findings.add("S103", message, culprit.brace, hint=hint, labels=[label])
    return True


def _culprit(here: Scene, vocabulary: Vocabulary) -> tuple[Frame, Token | None]:
    """The brace to blame at the end of the file, and the token that shows it.

    Indentation tells: a block's head in column one inside a body, or a `}` further left than its block's head, is not
    where it belongs. Else it is the innermost brace still open.
    """
    walk = Scene(here.text, here.bad)
    for token in here.before:
        opened = walk.frames[-1] if walk.frames else None
        if opened and token.type == "LBRACE" and walk.head and walk.head[0] in vocabulary.kinds:
            if here.indentation(walk.head[0]) == 0:
                return opened, walk.head[0]
        elif opened and token.type == "RBRACE" and opened.head:
            left, right = here.indentation(token), here.indentation(opened.head[0])
            if left is not None and right is not None and left < right:
                return opened, token
        walk.take(token)
    return here.frames[-1], None


def _stray_brace(here: Scene, findings: Findings, vocabulary: Vocabulary) -> bool:
    if here.bad.type != "RBRACE" or here.frames or here.head:
        return False
    labels = []
    if here.closed and here.closing:
        name = _head(here.closed.head, vocabulary, nested=False)
        labels = [findings.label(f"`{name}` is already closed here", here.closing)]
    findings.add("S104", "this `}` closes nothing", here.bad, hint="remove it", labels=labels)
    return True


def _comma(here: Scene, findings: Findings, _: Vocabulary) -> bool:
    if here.bad.type != "_COMMA":
        return False
    after = here.before[-1].type if here.before else ""
    where = {"RBRACE": "after `}`", "_COMMA": "after another comma", "_NL": "at the beginning of a line"}.get(
        after, "here"
    )
    findings.add(
        "S109", f"no comma stands {where}", here.bad, hint="remove it; one comma may follow a value, on its line"
    )
    return True


def _bare_text(here: Scene, findings: Findings, _: Vocabulary) -> bool:
    """`path /hooks/github`: a text that needs quotes."""
    awaited = here.awaits_value or (bool(here.frames) and len(here.head) == 2)
    if here.bad.type not in {"JUNK", "SIGN", "NUMBER"} or not awaited or here.breaks or here.lists:
        return False
    first = here.bad
    if len(here.head) == 2 and here.head[1].end_pos == here.bad.start_pos:
        first = here.head[1]
    elif len(here.head) == 2 or here.bad.type == "NUMBER":
        return False
    start = first.start_pos or 0
    end = start
    while end < len(here.text) and end - start < 200 and here.text[end] not in " \t\r\n{}[],\"'":
        end += 1
    findings.add("S109", "a text with such characters stands in quotes", Place(start, end), hint='write it as `"…"`')
    return True


def _incomplete_head(here: Scene, findings: Findings, vocabulary: Vocabulary) -> bool:
    if here.frames or not here.head:
        return False
    word, end = here.head[0][:64], here.head[-1].end_pos or 0
    place = here.bad if here.bad.type not in {"_NL", "$END"} else Place(end, end + 1)
    head = _head(here.head, vocabulary, nested=False)
    hint = f"a block is `{head} {{ … }}`" if len(here.head) > 1 else f"a block is `{head} name {{ … }}`"
    owner = next((kind for kind, settings in vocabulary.kinds.items() if word in settings), None)
    if word not in vocabulary.kinds:
        hint = f"blocks are {listing(vocabulary.kinds)}"
        if owner:
            hint = f"`{word}` is a setting of `{owner}` and stands in its braces"
    findings.add("S109", f"`{{` is missing after `{head}`", place, hint=hint)
    return True


def _anything_else(here: Scene, findings: Findings, vocabulary: Vocabulary) -> bool:
    if here.frames:
        settings = vocabulary.at(here.path)
        hint = (
            f"a setting's name could stand here, or `}}`: {listing(settings)}"
            if settings
            else "a setting's name or `}` could stand here"
        )
    else:
        hint = f"a block could stand here: {listing(vocabulary.kinds)}"
    findings.add("S109", f"{_shown(here.bad)} cannot stand here", here.bad, hint=hint)
    return True


def _shown(token: Token) -> str:
    """What a token is, without showing a value: it may be a secret."""
    match token.type:
        case "STRING" | "LONG_STRING":
            return "a string"
        case "NUMBER":
            return "a number"
        case "WORD":
            return "a word"
        case "_NL":
            return "the end of the line"
        case "$END":
            return "the end of the file"
        case _ if token.isprintable():
            return f"`{token}`"
    return f"the character U+{ord(token[0]):04X}"


def _head(head: Sequence[Token], vocabulary: Vocabulary, *, nested: bool) -> str:
    """A head as a message may show it. Only a block's name is shown: the value of a setting may be a secret."""
    if not head:
        return "block"
    named = not nested and head[0] in vocabulary.kinds
    return " ".join(token[:80] for token in head) if named else str(head[0][:80])


def _to_line_end(here: Scene, token: Token) -> Place:
    start = token.start_pos or 0
    end = here.text.find("\n", start)
    end = len(here.text) if end < 0 else end
    return Place(start, end - 1 if here.text[end - 1 : end] == "\r" else end)


_RULES: tuple[Rule, ...] = (
    _key_as_value, _unclosed_string, _single_quotes, _sign, _brace_on_next_line, _no_value, _unclosed_list,
    _unclosed_block, _stray_brace, _comma, _bare_text, _incomplete_head, _anything_else,
)  # fmt: skip

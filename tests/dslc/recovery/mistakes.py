"""Single mistakes, at every position of a program, in every layout.

`slips()` returns all of them. Each is one edit of a program without an error, with the lines on which a reader would
look for it. They compile with `tests.dslc.catalogs.CATALOG`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from dslc.syntax.lark_parser import tokens

PROGRAM = """memory "agent-memory" {
    store records {
        gates [tdd_proof, review]
        segment 10KB
    }
    path "data/agents"
    search {
        vector_weight 0.7
        keyword_weight 0.3
    }
}

memory logs {
    path "data/logs"
    retention 90d
}

webhook github-events {
    path "/hooks/github"
    provider custom {
        header "X-Sig"
        encoding base64
    }
    secret ["secret://env/NEW", "secret://env/OLD"]
    agent reviewer
    allow_from ["192.0.2.0/24"]
    concurrency 4
    filter {
        json_path "$.action"
        equals "opened"
        not {
            json_path "$.draft"
            equals true
        }
    }
    limits {
        body 1.5MB
        per_minute 60
    }
    keep_body true
}

webhook second {
    path "/hooks/second"
    secret "secret://env/SECOND"
    agent reviewer
    memory logs
}

agent "reviewer" {
    memory agent-memory
    instruction "You review."
    model fast
    tools [search, remember]
    max_steps 5
    context {
        max_tokens 9000
    }
    summarizer {
        model openai {
            url "https://example.org/v1"
        }
    }
    thread keyed {
        json_path "$.number"
    }
    block persona {
        value "You are brief."
        shared true
    }
    block human {
        char_limit 500
    }
}

model "fast" {
    service openai {
        url "https://example.org/v1"
    }
    window 8192
    fallback [slow]
}

model slow {
    service ollama
}
"""


def _flat(text: str) -> str:
    """Return the program without indentation."""
    return "".join(line.lstrip(" ") for line in text.splitlines(keepends=True))


def _narrow(text: str) -> str:
    """Return the program with tabs and CRLF."""
    return text.replace("    ", "\t").replace("\n", "\r\n")


def _grouped(text: str) -> str:
    """Return the program with every group on one line."""
    lines: list[str] = []
    depth = 0
    for line in text.splitlines():
        if depth > 1:
            lines[-1] += " " + line.strip()
        else:
            lines.append(line)
        depth += line.count("{") - line.count("}")
    return "\n".join(lines) + "\n"


def _dense(text: str) -> str:
    """Return the program with every block on one line."""
    return "\n".join(" ".join(block.split()) for block in text.split("\n\n")) + "\n"


LAYOUTS: dict[str, Callable[[str], str]] = {
    "indented": lambda text: text,
    "narrow": _narrow,
    "flat": _flat,
    "grouped": _grouped,
    "dense": _dense,
}


class Part(NamedTuple):
    """A token of a program. `role`: what it is; `depth`: open braces before it; `close`: for a `{` or `[`, its pair."""

    role: str
    text: str
    start: int
    end: int
    depth: int
    key: str = ""


@dataclass(frozen=True)
class Slip:
    """A program with one mistake, or with `mistakes` at one place. `lines`: where it may be reported, from 1."""

    name: str
    layout: str
    place: str
    text: str
    lines: frozenset[int]
    mistakes: int = 1

    def __str__(self) -> str:
        return f"{self.name}, {self.layout}, {self.place}"


def _parts(text: str) -> list[Part]:
    parts: list[Part] = []
    head: list[str] = []
    depth = lists = 0
    for token in tokens(text):
        kind, start, end = token.type, token.start_pos or 0, token.end_pos or 0
        role = ""
        if lists or kind == "LSQB":
            lists += (kind == "LSQB") - (kind == "RSQB")
            role = {"LSQB": "[", "RSQB": "]", "_COMMA": ","}.get(kind, "item")
            if role == "]":
                head.append("]")
        elif kind == "LBRACE":
            role, depth = "{", depth + 1
        elif kind == "RBRACE":
            role, depth = "}", depth - 1
        elif kind in {"WORD", "STRING", "NUMBER"}:
            if len(head) == 2:
                head = []
            role = ("key", "value")[len(head)] if depth else ("kind", "name")[len(head)]
            head.append(str(token))
        if role:
            shown = depth - (role == "{") + (role == "}")
            parts.append(Part(role, str(token), start, end, shown, head[0] if head else ""))
        if role in {"{", "}"}:
            head = []
    return parts


def _pair(parts: list[Part], number: int) -> Part:
    role, depth = parts[number].role, parts[number].depth
    closing = ("}", depth + 1) if role == "{" else ("]", depth)
    return next(part for part in parts[number + 1 :] if (part.role, part.depth) == closing)


_Edit = tuple[int, int, str]
_BRACES: dict[str, tuple[str, str]] = {
    "parentheses": ("(", ")"),
    "square brackets": ("[", "]"),
    "angle brackets": ("<", ">"),
    "do and end": ("do", "end"),
    "braces in parentheses": ("({", "})"),
    "a template's braces": ("{%", "%}"),
    "doubled braces": ("{{", "}}"),
    "braces with signs": ("{|", "|}"),
}  # fmt: skip
_OF_SIGNS: dict[str, dict[str, str]] = {
    "[": {"bracket missing": "", "bracket twice": "[[", "parenthesis for bracket": "(", "equals before list": "= ["},
    "]": {"list not closed": "", "list closed twice": "]]", "list ends in brace": "}", "list ends in parenthesis": ")"},
    "{": {
        "brace missing": "",
        "closed and opened": "}{",
        "brace twice": "{ {",
        "equals before brace": "= {",
        "colon before brace": ": {",
        "arrow before brace": "=> {",
        "colon for brace": ":",
        "parenthesis for brace": "(",
        "bracket for brace": "[",
        "brace below": "\n{",
        "brace and comma": "{,",
        "brace and semicolon": "{;",
    },
    "}": {
        "end missing": "",
        "end twice": "} }",
        "end and comma": "},",
        "end and semicolon": "};",
        "end in parenthesis": "})",
        "parenthesis for end": ")",
        "bracket for end": "]",
        "opened again": "}{",
    },
}


_INLINE = {
    "comma before key": {"grouped", "dense"},
    "do and end": {"grouped", "dense"},
    "angle brackets": {"grouped", "dense"},
    "parentheses": {"dense"},
    "square brackets": {"dense"},
    "value below": {"dense"},
    "unit apart": {"dense"},
    "string not closed": {"dense"},
    "list ends in brace": {"flat", "dense"},
    "item not closed": {"dense"},
    "name not closed": {"dense"},
    "name not opened": {"dense"},
    "quotes inside at the end": {"grouped", "dense"},
}
"""Edits that are no mistake there, that no author writes on one line, or that look like another mistake there."""


_TWICE = {"unknown key and sign before key"}
"""Edits that are two mistakes, each with its own correction."""


_PARSES = {("let before key", key) for key in ("store", "provider", "model", "service", "thread", "block")}
"""Edits that are two mistakes in the grammar: `let store` and `records { … }`."""


def _swapped(word: str) -> str:
    """Return a word with two letters in the wrong order."""
    for at in range(1, len(word) - 1):
        if word[at] != word[at + 1]:
            return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return word + "x"


def _of_kinds(part: Part) -> Iterator[tuple[str, str]]:
    text = part.text
    yield "kind misspelt", _swapped(text)
    yield "kind in capitals", text.capitalize()
    yield "kind in the plural", text + "s"
    yield "word before kind", "resource " + text
    yield "kind in quotes", f'"{text}"'
    yield "equals after kind", text + " ="
    yield "bracket before kind", "[ " + text
    yield "comma before kind", ", " + text


def _of_names(part: Part) -> Iterator[tuple[str, str]]:
    text = part.text
    inner = text.strip('"')
    yield "name missing", ""
    yield "name in single quotes", f"'{inner}'"
    yield "name in backquotes", f"`{inner}`"
    yield "newline in name", f'"{inner[:3]}\n{inner[3:]}"'
    yield "newline before the name's end", f'"{inner}\n"'
    yield "name not closed", f'"{inner}'
    yield "name not opened", f'{inner}"'
    yield "name with a slash", f'"a/{inner}"'
    yield "bare name with a slash", f"a/{inner}"
    yield "name in parentheses", f"({inner})"
    yield "two names", f"{text} extra"


def _of_keys(part: Part) -> Iterator[tuple[str, str]]:
    text = part.text
    yield "key misspelt", _swapped(text)
    yield "key in quotes", f'"{text}"'
    yield "key in single quotes", f"'{text}'"
    yield "unknown key and sign before key", 'remark = "x"\n' + text
    yield "no-break space before key", "\u00a0" + text
    yield "zero-width space before key", "\u200b" + text
    yield "dash before key", "- " + text
    yield "dot before key", "." + text
    yield "let before key", "let " + text
    yield "comma before key", ", " + text
    yield "semicolon before key", "; " + text
    yield "closing parenthesis before key", ") " + text
    yield "closing bracket before key", "] " + text
    yield "key twice", f"{text} {text}"
    yield "note before key", f"TODO\n{text}"
    yield "many brackets under an unknown key", "zzz " + "[" * 70 + "]" * 70 + "\n" + text
    yield "very many brackets never closed", "zzz " + "[" * 100 + "\n" + text
    yield "many braces under an unknown key", "zzz " + "{ a " * 70 + "}" * 70 + "\n" + text
    yield "closed and opened before key", "}{\n" + text


def _of_values(part: Part) -> Iterator[tuple[str, str]]:
    text, inner = part.text, part.text.strip('"')
    yield "equals", "= " + text
    yield "colon", ": " + text
    yield "arrow", "-> " + text
    yield "value missing", ""
    yield "value in parentheses", f"({text})"
    yield "value in braces", "{ " + text + " }"
    yield "semicolon after value", text + ";"
    yield "comma before value", ", " + text
    yield "sign after value", text + " ="
    yield "two commas after value", text + ",,"
    yield "parenthesis after value", text + ")"
    yield "bracket after value", text + "]"
    yield "ideographic space before value", "\u3000" + text
    yield "no-break space after value", text + "\u00a0"
    if text.startswith('"'):
        yield "single quotes", f"'{inner}'"
        yield "quotes inside", f'"{inner} "so" {inner}"'
        yield "quotes of JSON inside", f'"{inner} {{"so": 1}}"'
        yield "quotes inside at the end", f'"{inner} "so""'
        yield "curly quotes", f"“{inner}”"
        yield "string not closed", f'"{inner}'
        yield "string not opened", f'{inner}"'
        yield "newline in string", f'"{inner[:3]}\n{inner[3:]}"'
        yield "bad escape", f'"{inner}\\q"'
        yield "quotes doubled", f'""{inner}""'
        yield "one string and another", f'{text} "more"'
    elif text[0].isdigit():
        yield "number in words", "many"
        yield "unit apart", text.rstrip("MKBd") + " " + (text.lstrip("0123456789.") or "0")
        yield "letter in number", text + "qq"


def _of_items(part: Part) -> Iterator[tuple[str, str]]:
    text, inner = part.text, part.text.strip('"')
    yield "item in single quotes", f"'{inner}'"
    yield "item not closed", f'"{inner}'
    yield "equals in list", f"= {text}"
    yield "two commas in list", f"{text},,"
    yield "semicolon in list", f"{text};"
    yield "group in list", "{ " + text + " }"


_OF_ROLES = {"kind": _of_kinds, "name": _of_names, "key": _of_keys, "value": _of_values, "item": _of_items}


def _edits(text: str, parts: list[Part], number: int) -> Iterator[tuple[str, list[_Edit]]]:
    part = parts[number]
    one = _OF_ROLES[part.role](part) if part.role in _OF_ROLES else _OF_SIGNS.get(part.role, {}).items()
    yield from ((name, [(part.start, part.end, new)]) for name, new in one)
    if part.role == "value":
        line = text[text.rfind("\n", 0, part.start) + 1 :]
        indentation = line[: len(line) - len(line.lstrip())]
        yield "value below", [(part.start, part.end, "\n" + indentation + part.text)]
    if part.role in {"{", "["}:
        closed = _pair(parts, number)
        for name, (opening, closing) in _BRACES.items():
            if part.role == "{" or opening in {"(", "<", "({"}:
                yield name, [(part.start, part.end, opening), (closed.start, closed.end, closing)]


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _lines(text: str, parts: list[Part], number: int, edits: list[_Edit]) -> frozenset[int]:
    """Return the lines on which a reader would look: the line of the first edit and those that it adds, and, for a
    brace, the line of its pair."""
    start, _, new = edits[0]
    first = _line(text, start)
    lines = {*range(first, first + new.count("\n") + 1)}
    part = parts[number]
    if part.role == "}":  # it is unknown which of the open ones was to be closed
        lines |= {_line(text, opener.start) for opener in _openers(parts, number)}
    if part.role == "]":
        lines.add(_line(text, next(each for each in reversed(parts[:number]) if each.role == "[").start))
    lines |= {_line(text, edit[0]) for edit in edits[1:]}
    return frozenset(lines)


def _openers(parts: list[Part], number: int) -> list[Part]:
    """Return the braces that are open before a `}`."""
    found: list[Part] = []
    for part in parts[:number]:
        if part.role == "{":
            found.append(part)
        elif part.role == "}":
            found.pop()
    return found


@cache
def slips(program: str = PROGRAM) -> tuple[Slip, ...]:
    """Return all of them in one program in the formatter's layout."""
    made: list[Slip] = []
    for layout, lay in LAYOUTS.items():
        text = lay(program)
        parts = _parts(text)
        for number, part in enumerate(parts):
            for name, edits in _edits(text, parts, number):
                if layout in _INLINE.get(name, ()) or (name, part.text) in _PARSES:
                    continue
                changed = text
                for start, end, new in sorted(edits, reverse=True):
                    changed = changed[:start] + new + changed[end:]
                place = f"line {_line(text, part.start)}: {part.key} {part.text}"
                made.append(
                    Slip(name, layout, place, changed, _lines(text, parts, number, edits), 1 + (name in _TWICE))
                )
    return tuple(made)

"""TextMate grammar and snippets for VS Code, generated from the tables of the language. They need no server.

`make editors` writes both into the extension.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dslc.blocks.values.secret import SCHEMES
from dslc.catalog import Catalog
from dslc.language_server import markdown
from dslc.language_server.completion import block_snippet, setting_snippet, words_of
from dslc.setting import Setting
from dslc.syntax.block_heads import FOREIGN_KINDS
from dslc.syntax.tokens import NUMBER, WORD, WORD_END
from dslc.vocabulary import Vocabulary

GRAMMAR = "syntaxes/symbiont.tmLanguage.json"
SNIPPETS = "snippets/symbiont.json"
SCOPE = "source.symbiont"

_WORD = WORD.replace("*+", "*")  # Oniguruma syntax
_STRING = r'"(?:[^"\\]|\\.)*"'
_NAME = rf"(?:{_WORD}|{_STRING})"
_REFERENCE = rf'(?<=")(?:{"|".join(SCHEMES)})://[^"\s]*'
Rule = Mapping[str, Any]


def grammar(vocabulary: Vocabulary) -> dict[str, Any]:
    """Return the TextMate grammar."""
    settings = list(_settings(vocabulary))
    words = {word for setting in settings for word in words_of(setting, vocabulary)} - {"true", "false"}
    return {
        "$schema": "https://raw.githubusercontent.com/martinring/tmlanguage/master/tmlanguage.json",
        "name": "Symbiont",
        "scopeName": SCOPE,
        "fileTypes": ["symbiont"],
        "patterns": [{"include": "#comment"}, {"include": "#elsewhere"}, {"include": "#block"}, {"include": "#string"}],
        "repository": {
            "comment": {"name": "comment.line.symbiont", "match": r"(?:#|//).*$"},
            **_foreign_rules(),
            "block": _block(vocabulary),
            "body": {"patterns": [{"include": f"#{name}"} for name in _BODY]},
            "braces": {**_section(r"\{", r"\}", "block"), "patterns": [{"include": "#body"}]},
            **_entries(),
            "key": {
                "patterns": [
                    {"name": "support.type.property-name.symbiont", "match": _whole_word(_names(settings))},
                    {"name": "variable.other.property.symbiont", "match": _WORD},
                    {"name": "variable.other.property.symbiont", "match": _STRING},
                ]
            },
            **_values(words),
        },
    }


_BODY = (
    "comment", "group", "long-setting", "string-setting", "list-setting", "word-setting", "braces", "key-alone",
    "value",
)  # fmt: skip


def _settings(vocabulary: Vocabulary) -> Iterator[Setting]:
    """Settings of all bodies, once for each body."""
    waiting = [setting for settings in vocabulary.kinds.values() for setting in settings.values()]
    families: set[str] = set()
    for setting in waiting:
        yield setting
        waiting += setting.settings
        if setting.family and setting.family not in families:
            families.add(setting.family)
            waiting += [option for row in vocabulary.rows(setting.family).values() for option in row.options]


def _names(settings: Iterable[Setting]) -> set[str]:
    return {setting.name for setting in settings}


def _alternatives(words: Iterable[str]) -> str:
    return "|".join(sorted(words)) or "(?!)"


def _whole_word(words: Iterable[str]) -> str:
    """Pattern for one of the words, not inside a longer word."""
    return f"(?<![A-Za-z0-9_-])(?:{_alternatives(words)}){WORD_END}"


def _section(begin: str, end: str, what: str) -> dict[str, Any]:
    mark = {"0": {"name": f"punctuation.section.{what}.symbiont"}}
    return {"begin": begin, "end": end, "beginCaptures": mark, "endCaptures": mark}


def _block(vocabulary: Vocabulary) -> Rule:
    kinds = _alternatives(vocabulary.kinds)
    return {
        "begin": rf"({kinds}){WORD_END}[ \t]*({_NAME})?[ \t]*(\{{)",
        "end": r"\}",
        "beginCaptures": {
            "1": {"name": "storage.type.symbiont"},
            "2": {"name": "entity.name.type.symbiont"},
            "3": {"name": "punctuation.section.block.symbiont"},
        },
        "endCaptures": {"0": {"name": "punctuation.section.block.symbiont"}},
        "patterns": [{"include": "#body"}],
    }


def _foreign_rules() -> dict[str, Rule]:
    """Rules for blocks of the wider language: only the head and the braces, not the syntax of the body."""
    inner = [{"include": "#comment"}, {"include": "#string"}, {"include": "#elsewhere-braces"}]
    return {
        "elsewhere": {
            "begin": rf"^[ \t]*(?:({_alternatives(FOREIGN_KINDS)}){WORD_END}|(agent)[ \t]+({_NAME})[ \t]*(?=\())",
            "end": r"(?<=\})|^(?=[A-Za-z_])",
            "beginCaptures": {
                "1": {"name": "keyword.other.symbiont"},
                "2": {"name": "storage.type.symbiont"},
                "3": {"name": "entity.name.type.symbiont"},
            },
            "patterns": inner,
        },
        "elsewhere-braces": {**_section(r"\{", r"\}", "block"), "patterns": inner},
    }


def _entries() -> dict[str, Rule]:
    """Rules for settings, by type of value. A value ends on its line, so the next word is a key again."""
    key = {"patterns": [{"include": "#key"}]}
    before = rf"({_NAME})[ \t]+"
    return {
        "group": {
            **_section(rf"({_NAME})[ \t]*(\{{)", r"\}", "block"),
            "beginCaptures": {"1": key, "2": {"name": "punctuation.section.block.symbiont"}},
            "patterns": [{"include": "#body"}],
        },
        "long-setting": _text(before + r'(""")', '"""', {"1": key}, "string.quoted.triple.symbiont"),
        "string-setting": _text(before + r'(")(?!"")', r'"|$', {"1": key}, "string.quoted.double.symbiont"),
        "list-setting": {
            "begin": before + r"(\[)",
            "end": r"\]",
            "beginCaptures": {"1": key, "2": {"name": "punctuation.section.list.symbiont"}},
            "endCaptures": {"0": {"name": "punctuation.section.list.symbiont"}},
            "patterns": [{"include": "#comment"}, {"include": "#value"}],
        },
        "word-setting": {
            "match": rf"{before}(-?[A-Za-z0-9_][A-Za-z0-9_.-]*)",
            "captures": {"1": key, "2": {"patterns": [{"include": "#value"}]}},
        },
        "key-alone": {"match": _WORD, "captures": {"0": key}},
    }


def _text(begin: str, end: str, captures: Mapping[str, Rule], name: str) -> Rule:
    quotes = {"name": f"{name} punctuation.definition.string.begin.symbiont"}
    return {
        "begin": begin,
        "end": end,
        "beginCaptures": {**captures, "2": quotes},
        "endCaptures": {"0": {"name": f"{name} punctuation.definition.string.end.symbiont"}},
        "contentName": name,
        "patterns": [{"include": "#inside"}],
    }


def _values(words: Iterable[str]) -> dict[str, Rule]:
    inside = [{"include": "#inside"}]
    return {
        "string": {
            "patterns": [
                {"name": f"string.quoted.{name}.symbiont", "begin": begin, "end": end, "patterns": inside}
                for name, begin, end in (("triple", '"""', '"""'), ("double", '"', r'"|$'))
            ]
        },
        "inside": {
            "patterns": [
                {"name": "constant.character.escape.symbiont", "match": r'\\(?:["\\nrt]|u[0-9A-Fa-f]{4})'},
                {"name": "invalid.illegal.escape.symbiont", "match": r"\\."},
                {"name": "markup.underline.link.symbiont", "match": _REFERENCE},
            ]
        },
        "value": {
            "patterns": [
                {"include": "#string"},
                {**_section(r"\[", r"\]", "list"), "patterns": [{"include": "#comment"}, {"include": "#value"}]},
                {"name": "constant.language.boolean.symbiont", "match": _whole_word(("true", "false"))},
                {"name": "constant.numeric.symbiont", "match": NUMBER.replace("*+", "*")},
                {"name": "support.constant.symbiont", "match": _whole_word(words)},
                {"name": "variable.other.constant.symbiont", "match": _WORD},
            ]
        },
    }


def snippets(vocabulary: Vocabulary) -> dict[str, Any]:
    """Return a snippet for every kind of block, and for each of its groups and variants."""

    def words(setting: Setting) -> Sequence[str]:
        return words_of(setting, vocabulary)

    made = {}
    for kind, settings in vocabulary.kinds.items():
        made[kind] = _snippet(kind, block_snippet(kind, settings, words), markdown.of_kind(kind))
        for setting in settings.values():
            if setting.type in {"group", "map"} or (setting.type == "variant" and words(setting)):
                made[f"{kind}: {setting.name}"] = _snippet(
                    setting.name, setting_snippet(setting, words), f"{setting.doc} A setting of `{kind}`."
                )
    return made


def _snippet(prefix: str, body: str, doc: str) -> dict[str, Any]:
    return {"prefix": prefix, "body": body.split("\n"), "description": markdown.plain(doc.partition("\n\n")[0])}


def files(vocabulary: Vocabulary) -> dict[str, str]:
    """Return the generated files of the extension: path → text."""
    made = {GRAMMAR: grammar(vocabulary), SNIPPETS: snippets(vocabulary)}
    return {path: json.dumps(data, indent=2, ensure_ascii=False) + "\n" for path, data in made.items()}


def main(folder: Path) -> None:
    """Write the files into the extension at `folder`."""
    for path, text in files(Vocabulary(Catalog.installed())).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

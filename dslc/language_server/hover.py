"""Hover text for the word under the cursor. The value of a secret is never shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dslc.blocks.values.invalid import Invalid
from dslc.blocks.values.quantity import read_duration, read_size, write_duration
from dslc.blocks.values.secret import backend_of, is_reference
from dslc.language_server.cursor_context import CursorContext
from dslc.language_server.markdown import of_kind, of_row, of_setting
from dslc.setting import Setting
from dslc.vocabulary import Vocabulary

Summary = Callable[[str, str], str]


@dataclass(frozen=True, slots=True)
class Hover:
    """Markdown about `text[start:end]`."""

    markdown: str
    start: int
    end: int


def hover(cursor_context: CursorContext, vocabulary: Vocabulary, summary: Summary) -> Hover | None:
    """Hover text for the token at the cursor; None if there is none. `summary(kind, name)` describes a block in
    Markdown."""
    token, entry = cursor_context.token, cursor_context.entry
    if token is None or entry is None:
        return None
    said = ""
    match cursor_context.role:
        case "kind" if token.text in vocabulary.kinds:
            said = of_kind(token.text)
        case "name":
            said = summary(entry.key.text, token.content)
        case "key":
            setting = cursor_context.setting(vocabulary)
            said = of_setting(setting) if setting else ""
        case "value":
            setting = cursor_context.setting(vocabulary)
            said = _value(cursor_context, setting, vocabulary, summary) if setting else ""
    return Hover(said, token.start + cursor_context.base, token.end + cursor_context.base) if said else None


def _value(cursor_context: CursorContext, setting: Setting, vocabulary: Vocabulary, summary: Summary) -> str:
    text = cursor_context.token.content if cursor_context.token else ""
    if setting.type == "secret" or (setting.type in {"header_value", "env_value"} and is_reference(text)):
        return _secret(text, vocabulary)
    if setting.block is not None and vocabulary.names_block(setting, text):
        return summary(setting.block, text) or of_setting(setting)
    row = vocabulary.rows(setting.family).get(text) if setting.family else None
    if row is not None:
        return of_row(row)
    said = of_setting(setting)
    meant = _plain_quantity(setting, text)
    return f"{meant}\n\n{said}" if meant else said


def _secret(text: str, vocabulary: Vocabulary) -> str:
    if not is_reference(text):
        return "A secret that is written in the file. Store it elsewhere and use a reference: `secret://…`."
    try:
        row = vocabulary.rows("secret").get(backend_of(text))
    except Invalid:
        return ""
    return of_row(row) if row else ""


def _plain_quantity(setting: Setting, text: str) -> str:
    """Value of a duration or a size in plain units."""
    try:
        if setting.type == "duration":
            return f"`{text}` is {write_duration(read_duration(text))}"
        if setting.type == "size":
            return f"`{text}` is {read_size(text):,} bytes"
    except Invalid:
        return ""
    return ""

"""Reads one value by the type of its setting."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from lark import Token

from dslc.blocks.template import read_template
from dslc.blocks.values.event import valid_event
from dslc.blocks.values.form import valid_form
from dslc.blocks.values.header import valid_header_name, valid_header_value
from dslc.blocks.values.invalid import Invalid
from dslc.blocks.values.json_path import valid_json_path
from dslc.blocks.values.names import valid_name
from dslc.blocks.values.network import valid_network
from dslc.blocks.values.pattern import valid_pattern
from dslc.blocks.values.quantity import read_duration, read_size
from dslc.blocks.values.secret import backend_of, is_reference, valid_env_value, valid_secret
from dslc.blocks.values.tool import matches, server_of, valid_tool
from dslc.blocks.values.url import valid_url, valid_url_path
from dslc.diagnostics.collector import Place
from dslc.diagnostics.diagnostic import Fix
from dslc.diagnostics.suggestion import listing, nearest, suggestion
from dslc.example import example
from dslc.setting import NAME_TYPES, Setting
from dslc.syntax.quoting import write_name
from dslc.syntax.tree import ListValue, MissingToken, ValueNode
from dslc.value_reading.check_state import INVALID, CheckState, InvalidValue, Use
from dslc.value_reading.number import read_integer, read_number, read_scalar
from dslc.value_reading.string_literals import is_string, text_of

_CODES = {"type": "T401", "bounds": "T402", "form": "T406"}
_TRUTHS = {"true": True, "false": False}
_TEXT_TYPES = {"string", "scalar", "event", "header_name", "pattern", "template", "header_value", "env_value"}

_WORD = re.compile(r"\w+")
_MAX_WORD = 64
_PLAIN_WORD = re.compile(r"[\w@./:-]{1,24}", re.ASCII)
_LIKE_REFERENCE = re.compile(r"secrets?[:/]|env:|(?:env|vault|file)/", re.IGNORECASE)
# The name of an environment variable is no secret; other text of this form may be one, and is not repeated.
_LIKE_VARIABLE = re.compile(r"(?:secrets?[:/]+)?env[:/]+([A-Z][A-Z0-9_]*)")
_LAST_ON_LINE = re.compile(r"[ \t]*+,?[ \t]*+(?:\r?\n|\Z|\}|\]|#|//)")


def read_value(context: CheckState, setting: Setting, value: ValueNode) -> Any | InvalidValue:
    """Return the Python value, or `INVALID` after reporting a diagnostic. Lists of a setting with `many` are read by
    item."""
    if isinstance(value, MissingToken):
        return INVALID
    if not setting.many:
        return _one(context, setting, value)
    if isinstance(value, ListValue):
        return _many(context, setting, value)
    if setting.single:
        item = _one(context, setting, value)
        return item if isinstance(item, InvalidValue) else (item,)
    shown = value if setting.type != "secret" and value.type == "WORD" else _words_of(setting, value)
    context.collector.add("T401", f"`{setting.name}` takes a list", value, hint=f"`{setting.name} [{shown}]`")
    return INVALID


def _words_of(setting: Setting, value: Token) -> str:
    """Return the words of a text in place of a list of texts, such as a command line, as the list; else an ellipsis."""
    words = value[1:-1].split() if value.type == "STRING" and setting.type == "string" else []
    return ", ".join(f'"{word}"' for word in words) if words and all(map(_PLAIN_WORD.fullmatch, words)) else "…"


def read_key(context: CheckState, setting: Setting, key: Token) -> str | InvalidValue:
    """Return a key of a map, without quotes, or `INVALID` after reporting that it is not of the right form."""
    text = text_of(key, context.collector)
    if text is None:
        return INVALID
    try:
        if setting.keys == "header_name":
            valid_header_name(text)
        if setting.form is not None:
            valid_form(text, setting.form, setting.form_says or "of the required form")
    except Invalid as invalid:
        hint = invalid.hint or "use another name"
        context.collector.add("T406", f"`{setting.name}`: {invalid}", _part(key, text, invalid), hint=hint)
        return INVALID
    return text


def _many(context: CheckState, setting: Setting, value: ListValue) -> Any | InvalidValue:
    items = [_one(context, setting, item) for item in value.items]
    if any(isinstance(item, InvalidValue) for item in items):
        return INVALID
    low, high = setting.min_length or 0, setting.max_length
    if len(items) < low or (high is not None and len(items) > high):
        context.collector.add(
            "T402", f"`{setting.name}` has {len(items)} items", value, hint=_lengths(setting, "items")
        )
        return INVALID
    return tuple(items)


def _one(context: CheckState, setting: Setting, value: ValueNode) -> Any | InvalidValue:
    """Read a single value; an error is reported and gives `INVALID`."""
    if isinstance(value, ListValue):
        context.collector.add(
            "T401", f"`{setting.name}` takes one value, not a list", value, hint=f"such as `{example(setting)}`"
        )
        return INVALID
    text = text_of(value, context.collector)
    if text is None:
        return INVALID
    try:
        found = _READERS[setting.type](context, setting, value, text)
        _check_bounds(setting, found)
        if setting.form is not None and isinstance(found, str):
            valid_form(found, setting.form, setting.form_says or "of the required form")
    except Invalid as invalid:
        code = "N206" if invalid.fault == "form" and setting.type in NAME_TYPES else _CODES[invalid.fault]
        hint = invalid.hint or f"such as `{example(setting)}`"
        fix = _quotes_fix(context, setting, value) if code == "T401" else None
        if fix is not None:
            hint = f"write `{write_name(setting.name)} {fix.edits[0].text}`"
        elif code == "T401" and setting.type in _TEXT_TYPES and value.type == "WORD":
            hint = "put the whole text in quotes"
        context.collector.add(code, f"`{setting.name}`: {invalid}", _part(value, text, invalid), hint=hint, fix=fix)
        return INVALID
    return found


def _quotes_fix(context: CheckState, setting: Setting, value: Token) -> Fix | None:
    """Fix that puts quotes around a word, if the word can only be the whole text of the setting; else None."""
    start, end = value.start_pos or 0, value.end_pos or 0
    ends = _LAST_ON_LINE.match(context.collector.text, end) is not None
    if value.type != "WORD" or setting.type not in _TEXT_TYPES or not ends or len(value) > _MAX_WORD:
        return None
    return context.collector.fix("put it in quotes", (start, end, f'"{value}"'), safe=True)


def _part(value: Token, text: str, invalid: Invalid) -> Place | Token:
    """Position of the invalid part of a string, if the string has no escapes; else the whole value."""
    if invalid.part is None or value.type != "STRING" or value[1:-1] != text:
        return value
    base = (value.start_pos or 0) + 1
    return Place(base + invalid.part[0], base + max(invalid.part[1], invalid.part[0] + 1))


def _check_bounds(setting: Setting, value: Any) -> None:
    if isinstance(value, str) and setting.type in {"string", "scalar"}:
        low, high = setting.min_length, setting.max_length
        if not setting.many and ((low is not None and len(value) < low) or (high is not None and len(value) > high)):
            raise Invalid(f"the text has {len(value)} characters", hint=_lengths(setting, "characters"), fault="bounds")
        return
    low, high = _bound(setting, setting.minimum), _bound(setting, setting.maximum)
    if (low is not None and value < low) or (high is not None and value > high):
        between = [
            f"at least {setting.minimum}" if low is not None else "",
            f"at most {setting.maximum}" if high is not None else "",
        ]
        raise Invalid("out of bounds", hint=" and ".join(filter(None, between)), fault="bounds")


def _bound(setting: Setting, bound: Any) -> Any:
    """A bound converted to the type of the setting."""
    if isinstance(bound, str):
        return read_duration(bound) if setting.type == "duration" else read_size(bound)
    return bound


def _lengths(setting: Setting, what: str) -> str:
    low, high = setting.min_length or 0, setting.max_length
    if high is None:
        return f"at least {low} {what.removesuffix('s') if low == 1 else what}"
    return f"{low} to {high} {what}"


def _string(_: CheckState, setting: Setting, token: Token, text: str) -> str:
    if not is_string(token):
        same = setting.type in _TEXT_TYPES  # otherwise it would be invalid in quotes as well
        hint = f'`"{token[:80]}"`' if same else f"such as `{example(setting)}`"
        raise Invalid("expected a string in quotes", hint=hint, fault="type")
    return text


def _template(context: CheckState, setting: Setting, token: Token, text: str) -> str:
    read_template(_string(context, setting, token, text), setting.choices or ())
    return text


def _scalar(context: CheckState, setting: Setting, token: Token, text: str) -> str | int | float | bool:
    if token.type == "NUMBER":
        return read_scalar(text)
    return _TRUTHS[text] if token.type == "WORD" and text in _TRUTHS else _string(context, setting, token, text)


def _boolean(_: CheckState, __: Setting, token: Token, text: str) -> bool:
    if token.type != "WORD" or text not in _TRUTHS:
        near = nearest(text, _TRUTHS) if not is_string(token) else text if text in _TRUTHS else None
        raise Invalid("expected `true` or `false`", hint=f"`{near}`" if near else "`true` or `false`", fault="type")
    return _TRUTHS[text]


def _numeric(read: Callable[[str], Any]) -> Callable[[CheckState, Setting, Token, str], Any]:
    def reader(_: CheckState, __: Setting, token: Token, text: str) -> Any:
        return read(text if token.type == "NUMBER" else "")

    return reader


def _measure(read: Callable[[str], Any]) -> Callable[[CheckState, Setting, Token, str], Any]:
    def reader(_: CheckState, __: Setting, token: Token, text: str) -> Any:
        return read(text if token.type in {"NUMBER", "STRING"} else "?")

    return reader


def _form(valid: Callable[[str], str]) -> Callable[[CheckState, Setting, Token, str], str]:
    def reader(context: CheckState, setting: Setting, token: Token, text: str) -> str:
        return valid(_string(context, setting, token, text))

    return reader


def _secret(context: CheckState, setting: Setting, token: Token, text: str) -> str:
    if not is_string(token):
        # The value may be the secret: it is not shown.
        raise Invalid("expected a reference to a secret, in quotes", hint='such as `"secret://env/NAME"`', fault="type")
    secret = valid_secret(text)
    if not is_reference(secret):
        message = "a secret is written in the file"
        hint = f'store it elsewhere and refer to it: `{write_name(setting.name)} "secret://env/NAME"`'
        if _LIKE_REFERENCE.match(secret):
            message = "this is no reference, so it is the secret itself"
            variable = _LIKE_VARIABLE.fullmatch(secret)
            shown = f"secret://env/{variable[1] if variable else 'NAME'}"
            hint = f'a reference begins with `secret://`: `{write_name(setting.name)} "{shown}"`'
        context.collector.add("P501", message, token, hint=hint)
        return secret
    backend, known = backend_of(secret), context.vocabulary.rows("secret")
    if backend not in known:
        at = text.find(backend)
        part = _part(token, text, Invalid("", part=(at, at + len(backend))))
        hint = suggestion(backend, known, what="backends")
        context.collector.add("P503", f"no secret backend is called `{backend}`", part, hint=hint)
    return secret


def _header_value(context: CheckState, setting: Setting, token: Token, text: str) -> str:
    valid_header_value(_string(context, setting, token, text))
    return _secret(context, setting, token, text) if is_reference(text) else text


def _env_value(context: CheckState, setting: Setting, token: Token, text: str) -> str:
    valid_env_value(_string(context, setting, token, text))
    return _secret(context, setting, token, text) if is_reference(text) else text


def _read_name(token: Token, text: str) -> str:
    if token.type in {"NUMBER", "LONG_STRING"}:
        raise Invalid("expected a name", hint="a word, or a name in quotes", fault="type")
    return valid_name(text)


def _name(context: CheckState, setting: Setting, token: Token, text: str) -> str | InvalidValue:
    name = _read_name(token, text)
    rows = context.vocabulary.rows(setting.family) if setting.family else {}
    if rows and name not in rows:
        return _no_choice(context, setting, token, name, list(rows))
    return name


def _tool(context: CheckState, setting: Setting, token: Token, text: str) -> str | InvalidValue:
    if token.type in {"NUMBER", "LONG_STRING"}:
        raise Invalid("expected the name of a tool", hint="a word, or a pattern in quotes", fault="type")
    valid_tool(text)
    if (server := server_of(text)) is not None:
        return _server_tool(context, setting, token, text, server)
    known = context.vocabulary.rows(setting.family or "")
    matched = [name for name in known if matches(text, name)]
    if text in known or any(setting.guards or not known[name].destructive for name in matched):
        return text
    near = None if context.collector.full else nearest(text.rstrip("*"), known)
    hint = f"did you mean `{near}`?" if near else suggestion("", _tool_patterns(known), what="tools")
    message, fix = f"no tool is called `{text}`", None
    if "*" in text:
        message = f"no tool matches `{text}`"
        hint = f"the nearest is `{near}`" if near else hint
    if matched:
        message, hint = f"`{text}` matches only tools that must be named in full", f"write {listing(matched)}"
    if near and "*" not in text:
        fix = context.collector.fix(f"write `{near}`", (token.start_pos or 0, token.end_pos or 0, near))
    context.collector.add("N209", message, token, hint=hint, fix=fix)
    return INVALID


def _tool_patterns(names: Iterable[str]) -> list[str]:
    """Return patterns of all tools by their first word, and the names that share it with no other one."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(name.split("_")[0], []).append(name)
    return [f"{word}_*" if len(group) > 1 else group[0] for word, group in sorted(groups.items())]


def _server_tool(context: CheckState, setting: Setting, token: Token, text: str, server: str) -> str | InvalidValue:
    """Read the name of a server's tool, or a pattern of them. What the server has is not known here."""
    part = _part(token, text, Invalid("", part=(0, len(server))))
    if "*" in server or not server or text == f"{server}.":
        hint = 'such as `"github.create_issue"` or `"github.*"`'
        message = f"`{text}`: the name of a server, a dot and a tool are needed"
        context.collector.add("N209", message, token, hint=hint)
        return INVALID
    context.uses.append(Use("mcp", server, part))
    return text


def _reference(context: CheckState, setting: Setting, token: Token, text: str) -> str:
    name = _read_name(token, text)
    rows = context.vocabulary.rows(setting.family) if setting.family else ()
    context.uses.append(Use(setting.block or "", name, token, rows))
    return name


def _word(context: CheckState, setting: Setting, token: Token, text: str) -> str | InvalidValue:
    if token.type not in {"WORD", "STRING"}:
        raise Invalid("expected a word", hint=suggestion("", setting.choices or (), what="choices"), fault="type")
    if text not in (setting.choices or ()):
        return _no_choice(context, setting, token, text, list(setting.choices or ()))
    return text


def _variant(context: CheckState, setting: Setting, token: Token, text: str) -> str | InvalidValue:
    rows = context.vocabulary.rows(setting.family or "")
    if token.type not in {"WORD", "STRING"}:
        raise Invalid("expected a name", hint=suggestion("", rows, what="choices"), fault="type")
    if text in rows:
        return text
    if setting.block is not None:
        return _reference(context, setting, token, text)
    return _no_choice(context, setting, token, text, list(rows))


def _no_choice(context: CheckState, setting: Setting, token: Token, text: str, known: list[str]) -> InvalidValue:
    """Report a value that is not one of the `known` names."""
    shown = text[:64] if text.isprintable() else "…"
    near = None if context.collector.full else nearest(text, known)
    message, hint = f"no {setting.family} is available", f"remove `{setting.name}`"
    if known:
        message = f"`{setting.name}` cannot be `{shown}`"
        meant = near or _by_description(context, setting, text)
        hint = f"did you mean `{meant}`?" if meant else suggestion("", known, what="choices")
    fix = context.collector.fix(f"write `{near}`", (token.start_pos or 0, token.end_pos or 0, near)) if near else None
    context.collector.add("T403", message, token, hint=hint, fix=fix)
    return INVALID


def _by_description(context: CheckState, setting: Setting, word: str) -> str | None:
    """The only row of the family with `word` in its title or documentation, such as `meta` for WhatsApp; else None."""
    if context.collector.full or not setting.family or not word.isidentifier() or len(word) > _MAX_WORD:
        return None
    rows = context.vocabulary.rows(setting.family).values()
    in_titles = [row.name for row in rows if word.casefold() in _words(row.title)]
    found = in_titles or [row.name for row in rows if word.casefold() in _words(row.doc) and len(word) > 2]
    return found[0] if len(found) == 1 else None


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


def _group(_: CheckState, setting: Setting, __: Token, ___: str) -> Any:
    raise Invalid("expected settings in braces", hint=f"such as `{example(setting)}`", fault="type")


_READERS: dict[str, Callable[[CheckState, Setting, Token, str], Any]] = {
    "string": _string,
    "scalar": _scalar,
    "integer": _numeric(read_integer),
    "number": _numeric(read_number),
    "boolean": _boolean,
    "word": _word,
    "duration": _measure(read_duration),
    "size": _measure(read_size),
    "url_path": _form(valid_url_path),
    "url": _form(valid_url),
    "json_path": _form(valid_json_path),
    "header_name": _form(valid_header_name),
    "pattern": _form(valid_pattern),
    "event": _form(valid_event),
    "network": _form(valid_network),
    "template": _template,
    "secret": _secret,
    "header_value": _header_value,
    "env_value": _env_value,
    "name": _name,
    "reference": _reference,
    "tool": _tool,
    "variant": _variant,
    "group": _group,
    "map": _group,
}

"""Documentation of kinds, settings and rows as Markdown. It does not contain values from a program."""

from __future__ import annotations

import re
from inspect import cleandoc

from dslc.blocks import TABLE
from dslc.catalog import CatalogEntry
from dslc.example import written_default
from dslc.setting import Setting

_TYPES = {
    "string": "text",
    "scalar": "text, number or boolean",
    "integer": "whole number",
    "number": "number",
    "boolean": "`true` or `false`",
    "word": "word",
    "duration": "duration",
    "size": "size",
    "url_path": "URL path",
    "url": "URL",
    "json_path": "JSONPath",
    "header_name": "name of a header",
    "pattern": "pattern (RE2)",
    "event": "event",
    "template": "template",
    "tool": "tool, or a pattern of tools",
    "network": "IP address or network",
    "secret": "secret",
    "header_value": "value of a header, or a reference to a secret",
    "env_value": "text, or a reference to a secret",
    "name": "name",
    "variant": "name, with its own options",
    "group": "settings in braces",
    "map": "names and values in braces",
}


def of_kind(kind: str) -> str:
    """Documentation of a kind of block."""
    return cleandoc(TABLE[kind].__doc__ or "")


def of_setting(setting: Setting) -> str:
    """Documentation of a setting: purpose, type, default, bounds and relations to other settings."""
    head = f"**{setting.name}**: {type_of(setting)}{', required' if setting.required else ''}"
    facts = [
        f"Default: `{written_default(setting)}`" if setting.default not in (None, "", []) else "",
        f"{'Over' if setting.type == 'template' else 'One of'} {_listed(setting.choices)}" if setting.choices else "",
        f"{'Names must' if setting.type == 'map' else 'Must'} be {setting.form_says}" if setting.form_says else "",
        _bounds(setting),
        f"Needs {_listed(setting.needs)}" if setting.needs else "",
        f"Needs one of {_listed(setting.needs_one)}" if setting.needs_one else "",
        f"Excludes {_listed(setting.excludes)}" if setting.excludes else "",
        f"Requires one of {_listed(setting.one_of)}" if len(setting.one_of) > 1 else "",
    ]
    return "\n\n".join(part for part in [head, setting.doc, "  \n".join(filter(None, facts))] if part)


def of_row(row: CatalogEntry) -> str:
    """Documentation of a row of the catalog: a provider, a store, a secret backend …"""
    facts = [
        f"Signs {', '.join(row.signed) or 'nothing'}" if row.signed is not None else "",
        f"Needs the extra `[{row.extra}]`" if row.extra else "",
        f"Options: {_listed(tuple(option.name for option in row.options))}" if row.options else "",
        f"<{row.doc_url}>" if row.doc_url else "",
    ]
    head = f"**{row.name}**" + (f": {row.title}" if row.title else "")
    return "\n\n".join(part for part in [head, row.doc, "  \n".join(filter(None, facts))] if part)


def type_of(setting: Setting) -> str:
    """Type of a setting's value, in words."""
    block = f"name of {'an' if (setting.block or 'block')[0] in 'aeiou' else 'a'} `{setting.block or 'block'}`"
    if setting.type == "reference":
        what = block
    elif setting.type == "map":
        what = f"names and values in braces: {_TYPES[setting.keys or 'name']}, {_TYPES[setting.items or 'string']}"
    else:
        what = _TYPES.get(setting.type, setting.type)
    if setting.type == "variant" and setting.block is not None:
        return f"{what}, or {block}"
    if setting.named:
        what = f"name, and {what}"
    if setting.repeats:
        return f"{what}, any number of times"
    return f"list of {what}{', or one' if setting.single else ''}" if setting.many else what


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _bounds(setting: Setting) -> str:
    what = "item" if setting.many else "character"
    low, high = setting.minimum, setting.maximum
    parts = [
        f"from `{low}` to `{high}`"
        if low is not None and high is not None
        else f"at least `{low}`"
        if low is not None
        else f"at most `{high}`"
        if high is not None
        else "",
        f"at least {_counted(setting.min_length, what)}" if setting.min_length else "",
        f"at most {_counted(setting.max_length, what)}" if setting.max_length is not None else "",
    ]
    text = ", ".join(filter(None, parts))
    return text[:1].upper() + text[1:]


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"


def plain(markdown: str) -> str:
    """Plain text of Markdown, for a client that does not support Markdown."""
    without_fences = re.sub(r"^```.*\n?", "", markdown, flags=re.MULTILINE)
    return re.sub(r"\*\*|`|<(?=https?:)|(?<=\S)>|  $", "", without_fences, flags=re.MULTILINE)

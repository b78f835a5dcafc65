"""Documentation of kinds, settings and rows as Markdown. It does not contain values from a program."""

from __future__ import annotations

import re
from inspect import cleandoc

from dslc.blocks import TABLE
from dslc.catalog import CatalogEntry
from dslc.reference.settings import facts, relations
from dslc.setting import Setting

_LINK = re.compile(r"\[([^\]]+)\]\([^()]*\)")


def of_kind(kind: str) -> str:
    """Documentation of a kind of block."""
    return cleandoc(TABLE[kind].__doc__ or "")


def of_setting(setting: Setting) -> str:
    """Documentation of a setting: purpose, type, default, bounds and relations to other settings."""
    found = [*facts(setting)[1:], *relations(setting, ())]
    lines = "  \n".join(f"{label}: {text}" for label, text in found if text)
    return "\n\n".join(part for part in (f"**{setting.name}**: {type_of(setting)}", setting.doc, lines) if part)


def of_row(row: CatalogEntry) -> str:
    """Documentation of a row of the catalog: a provider, a store, a secret backend …"""
    facts = [
        f"Signs {', '.join(row.signed) or 'nothing'}" if row.signed is not None else "",
        f"Needs the extra `[{row.extra}]`" if row.extra else "",
        f"Options: {', '.join(f'`{option.name}`' for option in row.options)}" if row.options else "",
        f"<{row.doc_url}>" if row.doc_url else "",
    ]
    head = f"**{row.name}**" + (f": {row.title}" if row.title else "")
    return "\n\n".join(part for part in [head, row.doc, "  \n".join(filter(None, facts))] if part)


def type_of(setting: Setting) -> str:
    """Type of a setting's value, in words."""
    return _LINK.sub(r"\1", facts(setting)[0][1])


def plain(markdown: str) -> str:
    """Plain text of Markdown, for a client that does not support Markdown."""
    without_fences = re.sub(r"^```.*\n?", "", markdown, flags=re.MULTILINE)
    return re.sub(r"\*\*|`|<(?=https?:)|(?<=\S)>|  $", "", without_fences, flags=re.MULTILINE)

"""A compiled program as JSON, without its literal secrets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from dslc.blocks.setting import setting_name
from dslc.blocks.values.quantity import write_duration
from dslc.blocks.values.secret import is_reference
from dslc.blocks.variant import Variant
from dslc.diagnostics.passwords import without_passwords
from dslc.program import BLOCK_FIELDS, Program
from dslc.setting import Setting
from dslc.vocabulary import Settings, Vocabulary, by_name

VERSION = 1
LITERAL = "[literal]"
"""Replaces a secret that is written in the file."""


def render(program: Program, vocabulary: Vocabulary) -> str:
    """Render the program as JSON: durations in the language's syntax, sizes in bytes, references to secrets
    unchanged."""
    blocks = {
        field: {
            name: _plain(block, vocabulary.kinds[kind], vocabulary) for name, block in getattr(program, field).items()
        }
        for field, kind in BLOCK_FIELDS.items()
    }
    return json.dumps({"version": VERSION, **blocks}, indent=2, ensure_ascii=False) + "\n"


def _plain(group: BaseModel | Mapping[str, Any], settings: Settings, vocabulary: Vocabulary) -> dict[str, Any]:
    items = {setting_name(field): value for field, value in group} if isinstance(group, BaseModel) else group
    return {name: plain(value, settings.get(name), vocabulary) for name, value in items.items()}


def plain(value: Any, setting: Setting | None, vocabulary: Vocabulary) -> Any:
    """Convert a value of `setting` to plain JSON. A literal secret becomes `LITERAL`; user and password are removed
    from URLs."""
    if isinstance(value, tuple | list):
        return [plain(item, setting, vocabulary) for item in value]
    if isinstance(value, Variant):
        row = vocabulary.rows(setting.family or "").get(value.name) if setting else None
        return {"name": value.name, "options": _plain(value.options, by_name(row.options if row else ()), vocabulary)}
    if setting is not None and setting.type == "map" and isinstance(value, Mapping):
        return {key: plain(item, setting.item(key), vocabulary) for key, item in value.items()}
    if isinstance(value, BaseModel | Mapping):
        return _plain(value, by_name(setting.settings if setting else ()), vocabulary)
    if isinstance(value, timedelta):
        return write_duration(value)
    if setting is not None and setting.type == "secret" and isinstance(value, str) and not is_reference(value):
        return LITERAL
    return without_passwords(value) if isinstance(value, str) else value

"""Reports of a difference between two programs: text and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any

from dslc.blocks.memory import Memory
from dslc.blocks.values.quantity import write_size
from dslc.blocks.webhook import Webhook
from dslc.comparison.difference import BlockDiff, Difference, SettingDiff
from dslc.example import write_value
from dslc.report.program import LITERAL
from dslc.report.text import visible
from dslc.setting import Setting
from dslc.syntax.quoting import write_name
from dslc.vocabulary import Settings, Vocabulary, by_name

VERSION = 1
_LONGEST = 60  # characters shown of a text
_TEXTS = {"string", "scalar", "template"}
_COLOURS = {"+": "\x1b[32m", "~": "\x1b[33m", "-": "\x1b[31m", "dim": "\x1b[2m"}
_PLAIN = "\x1b[0m"


def render(found: Difference, vocabulary: Vocabulary, *, colour: bool) -> str:
    """Text report: a line for each block or setting that differs, its effects below, and a summary."""
    prose = _Prose(vocabulary)
    lines = []
    for sign, entries in (("+", found.added), ("~", found.changed), ("-", found.removed)):
        for entry in entries:
            lines += [_paint(f"{sign} {line}", sign, colour) for line in prose.entry(entry)]
            lines += [_paint(f"    {visible(effect)}", "dim", colour) for effect in entry.effects]
    lines += [_paint(visible(effect), "dim", colour) for effect in found.effects]
    return "\n".join([*lines, _summary(found)]) + "\n"


def _paint(line: str, style: str, colour: bool) -> str:
    return f"{_COLOURS[style]}{line}{_PLAIN}" if colour else line


def _summary(found: Difference) -> str:
    if found.same:
        return "no changes"
    counts = {"added": found.added, "changed": found.changed, "removed": found.removed}
    return ", ".join(f"{len(entries)} {what}" for what, entries in counts.items() if entries)


class _Prose:
    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary

    def entry(self, entry: BlockDiff) -> Iterator[str]:
        head = f"{entry.kind} {entry.name}"
        if not entry.changes:
            where = f"  {entry.block.path}" if isinstance(entry.block, Memory | Webhook) else ""
            origin = f" ({entry.origin})" if entry.origin else ""
            yield visible(f"{head}{where}{origin}")
        for change in entry.changes:
            yield visible(f"{head}: {self.change(change)}")

    def change(self, change: SettingDiff) -> str:
        if change.setting.type == "secret" and change.old == change.new:
            return f"{change.path}: a literal changed"
        if change.setting.type == "group" and isinstance(change.old, list):
            return f"{change.path}: only the order changed"
        if isinstance(change.old, str) and isinstance(change.new, str) and change.setting.type in _TEXTS:
            old, new = (write_value(text, change.setting) for text in _excerpts(change.old, change.new))
        else:
            old, new = self.value(change.old, change.setting), self.value(change.new, change.setting)
        if old == new:
            return f"{change.path}: a password in the value changed"
        return f"{change.path} {old} → {new}"

    def value(self, value: Any, setting: Setting) -> str:
        """Value in the syntax of the language; `unset`, or the default if there is one, for a missing value."""
        if value is None or (value == [] and setting.default in (None, [])):
            unset = setting.default in (None, "", [])
            return "unset" if unset else f"{self.value(setting.default, setting)} (default)"
        if isinstance(value, list) and setting.single and len(value) == 1:
            return self.value(value[0], setting)
        if isinstance(value, list):
            return f"[{', '.join(self.value(item, setting) for item in value)}]"
        if isinstance(value, dict):
            return self._with_body(value, setting)
        if value == LITERAL and setting.type == "secret":
            return "a literal"
        if setting.type == "size" and isinstance(value, int):
            return write_size(value)
        if isinstance(value, str) and len(value) > _LONGEST and setting.type in _TEXTS and not setting.many:
            value = f"{value[:_LONGEST]}…"
        return write_value(value, setting)

    def _with_body(self, value: dict[str, Any], setting: Setting) -> str:
        if setting.type == "map":
            inner = [f"{write_name(key)} {self.value(item, setting.item(key))}" for key, item in value.items()]
            return f"{{ {' '.join(inner)} }}"
        if setting.named:
            settings = {key: item for key, item in value.items() if key != "name"}
            return f"{write_name(value['name'])} {self._body(settings, by_name(setting.settings))}"
        if setting.type != "variant":
            return self._body(value, by_name(setting.settings))
        row = self._vocabulary.rows(setting.family or "").get(value["name"])
        name = write_value(value["name"], setting)
        return f"{name} {self._body(value['options'], by_name(row.options))}" if row and value["options"] else name

    def _body(self, values: dict[str, Any], settings: Settings) -> str:
        inner = []
        for name, value in values.items():
            setting = settings[name]
            several = value if setting.many and setting.type == "group" else [value]
            inner += [f"{name} {self.value(each, setting)}" for each in several if each not in (None, [])]
        return f"{{ {' '.join(inner)} }}" if inner else "{}"


def _excerpts(old: str, new: str) -> tuple[str, str]:
    """Both texts; of long ones, the part around the first difference."""
    if max(len(old), len(new)) <= _LONGEST:
        return old, new
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
    start = max(common - _LONGEST // 3, 0)
    cut = [
        (f"{'…' if start else ''}{text[start : start + _LONGEST]}", len(text) > start + _LONGEST) for text in (old, new)
    ]
    before, after = (f"{text}…" if more else text for text, more in cut)
    return before, after


def render_json(found: Difference) -> str:
    """JSON object. Values are written as by `dslc compile`."""
    return _dump(
        {
            "version": VERSION,
            "same": found.same,
            "added": _entries(found.added),
            "changed": _entries(found.changed, with_changes=True),
            "removed": _entries(found.removed),
            "effects": list(found.effects),
        }
    )


def render_failure(message: str) -> str:
    """The same JSON object if the programs could not be compared; `failure` is the reason."""
    nothing: dict[str, Any] = {"added": [], "changed": [], "removed": [], "effects": []}
    return _dump({"version": VERSION, "same": False, **nothing, "failure": message})


def _dump(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2) + "\n"


def _entries(entries: Sequence[BlockDiff], *, with_changes: bool = False) -> list[dict[str, Any]]:
    return [
        {
            "kind": entry.kind,
            "name": entry.name,
            "origin": entry.origin,
            **({"changes": [_change(change) for change in entry.changes]} if with_changes else {}),
            "effects": list(entry.effects),
        }
        for entry in entries
    ]


def _change(change: SettingDiff) -> dict[str, Any]:
    return {"setting": change.path, "old": change.old, "new": change.new}

"""Example values for hints and documentation; the checks accept each of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from dslc.setting import NAME_TYPES, Setting
from dslc.syntax.quoting import quoted, write_name

if TYPE_CHECKING:
    from dslc.catalog import CatalogEntry
    from dslc.vocabulary import Vocabulary

_BY_TYPE = {
    "string": '"…"',
    "scalar": '"opened"',
    "integer": "10",
    "number": "0.5",
    "boolean": "true",
    "duration": "90d",
    "size": "256KB",
    "url_path": '"/hooks/github"',
    "url": '"https://example.org/hooks"',
    "json_path": '"$.action"',
    "header_name": '"X-Environment"',
    "pattern": '"^release-"',
    "event": '"pull_request"',
    "template": '"{body}"',
    "network": '"192.0.2.0/24"',
    "secret": '"secret://env/WEBHOOK_SECRET"',
    "header_value": '"core"',
    "env_value": '"production"',
}


class ExampleLine(NamedTuple):
    """A setting as written: key, value and body. A group has no value."""

    key: str
    value: str | None = None
    body: tuple[ExampleLine, ...] | None = None

    def inline(self) -> str:
        """The setting on one line."""
        head = self.key if self.value is None else f"{self.key} {self.value}"
        if self.body is None:
            return head
        return f"{head} {{ {' '.join(inner.inline() for inner in self.body)} }}" if self.body else f"{head} {{}}"


def example(setting: Setting, vocabulary: Vocabulary | None = None) -> str:
    """Return a line with a valid value for `setting`. Without the vocabulary, row names are placeholders."""
    return line(setting, vocabulary).inline()


def line(setting: Setting, vocabulary: Vocabulary | None = None) -> ExampleLine:
    """Return the result of `example` as an `ExampleLine`."""
    if setting.type == "map":
        return _map(setting)
    if setting.type == "group":
        if setting.named:
            chosen = needed_settings(setting.settings) or setting.settings[:2]
            return ExampleLine(setting.name, "a-name", tuple(line(each, vocabulary) for each in chosen))
        return ExampleLine(setting.name, body=_group(setting.settings, vocabulary))
    if setting.type == "variant":
        return _variant(setting, vocabulary)
    given = setting.example if setting.example is not None else setting.default
    if isinstance(given, list):
        values = [write_value(item, setting) for item in given]
    else:
        values = [write_value(given, setting)] if given not in (None, "") else []
    values = values or [_usual(setting, vocabulary)] * max(setting.min_length or 1 if setting.many else 1, 1)
    if setting.many and not (setting.single and len(values) == 1):
        return ExampleLine(write_name(setting.name), f"[{', '.join(values)}]")
    return ExampleLine(write_name(setting.name), values[0])


def row_line(setting: Setting, row: CatalogEntry, vocabulary: Vocabulary | None = None) -> ExampleLine:
    """Return `setting` with this row of its family and the options that the row requires."""
    name, body = write_name(row.name), tuple(line(option, vocabulary) for option in needed_settings(row.options))
    if setting.type == "variant":
        return ExampleLine(setting.name, name, body or None)
    return ExampleLine(setting.name, f"[{name}]" if setting.many and not setting.single else name)


def needed_settings(settings: Sequence[Setting], wanted: Iterable[Setting] = ()) -> list[Setting]:
    """Return `wanted` with the settings they need, and the ones that every body needs: required settings, and one of
    each `one_of` group. In the order of `settings`."""
    chosen = {setting.name for setting in wanted} | {setting.name for setting in settings if setting.required}
    _add_needs(settings, chosen)
    for setting in settings:
        if setting.one_of and chosen.isdisjoint(setting.one_of):
            chosen.add(setting.name)
    _add_needs(settings, chosen)
    return [setting for setting in settings if setting.name in chosen]


def _add_needs(settings: Sequence[Setting], chosen: set[str]) -> None:
    """Add the settings that the chosen ones need."""
    known = {setting.name: setting for setting in settings}
    waiting = list(chosen)
    while waiting:
        here = known[waiting.pop()]
        more = [name for name in here.needs if name in known and name not in chosen]
        if here.needs_one and chosen.isdisjoint(here.needs_one):
            more.append(here.needs_one[0])
        if here.type == "template":  # the settings that define its parts
            more += [each.name for each in settings if each.fills and f"{{{each.fills}}}" in str(here.example)]
            more = [name for name in more if name not in chosen]
        chosen.update(more)
        waiting += more


def _group(settings: Sequence[Setting], vocabulary: Vocabulary | None) -> tuple[ExampleLine, ...]:
    """The settings of a group to show: the required ones and those with a default, else the first one."""
    usual = [setting for setting in settings if setting.default not in (None, [], "") and not setting.excludes]
    chosen = needed_settings(settings, usual) or list(settings[:1])
    return tuple(line(setting, vocabulary) for setting in chosen)


def _map(setting: Setting) -> ExampleLine:
    given = setting.example or {"NAME": ""}
    values = {key: quoted(value) if value else _BY_TYPE[setting.items or "string"] for key, value in given.items()}
    return ExampleLine(setting.name, body=tuple(ExampleLine(write_name(key), value) for key, value in values.items()))


def _variant(setting: Setting, vocabulary: Vocabulary | None) -> ExampleLine:
    rows = vocabulary.rows(setting.family or "") if vocabulary is not None else {}
    name = setting.example or setting.default or next(iter(rows), "a-name")
    row = rows.get(name)
    return ExampleLine(setting.name, write_name(name)) if row is None else row_line(setting, row, vocabulary)


def _usual(setting: Setting, vocabulary: Vocabulary | None) -> str:
    """A value for a setting without example and default."""
    bounds = [bound for bound in (setting.minimum, setting.maximum) if bound is not None]
    if bounds:
        return write_value(bounds[0], setting)
    if setting.type in _BY_TYPE:
        letters = setting.min_length or 1 if setting.type == "string" and not setting.many else 1
        return _BY_TYPE[setting.type].replace("…", "…" * letters)
    rows = vocabulary.rows(setting.family) if vocabulary and setting.family else ()
    return write_name(next(iter(setting.choices or rows), "a-name"))


def write_default(setting: Setting) -> str:
    """Return the default of `setting` as the language writes it. A list is in brackets."""
    if isinstance(setting.default, list):
        return f"[{', '.join(write_value(item, setting) for item in setting.default)}]"
    return write_value(setting.default, setting)


def write_value(value: Any, setting: Setting) -> str:
    """Return one value of `setting` as the language writes it. `value`: JSON value, such as a default."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() if abs(value) >= 10_000:
            return f"{value:_}"
        case int() | float():
            return str(value)
    if setting.type in NAME_TYPES:
        return write_name(value)
    return value if setting.type in {"duration", "size"} else quoted(value)

"""Checks the settings of one body: known, given once, of the right type, complete."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from lark import Token

from dslc.blocks.checked_variant import CheckedVariant
from dslc.blocks.relations import misfits
from dslc.diagnostics.suggestion import nearest, suggestion
from dslc.example import example
from dslc.setting import STRING_TYPES, Setting
from dslc.syntax.tree import Body, EntryNode, MissingToken
from dslc.value_reading.check_state import INVALID, LOST_REFERENCE, BodyValues, CheckedHead, CheckState, InvalidValue
from dslc.value_reading.value import read_value
from dslc.vocabulary import Settings, by_name

_MAX_KEY = 64


def read_body(context: CheckState, settings: Sequence[Setting], body: Body | None, head: CheckedHead) -> BodyValues:
    """Read the values of a body. Recursion is safe: the parser bounds the nesting of groups."""
    given = BodyValues()
    if body is not None:
        _read_entries(context, by_name(settings), body, head, given)
        if body.start_pos in context.damaged:
            given.good, given.damaged = False, True
    _check_complete(context, settings, given, head)
    return given


def _read_entries(context: CheckState, known: Settings, body: Body, head: CheckedHead, given: BodyValues) -> None:
    """Read all entries of a body into `given`."""
    present: set[str] = set()
    invalid_end = -1  # end of the last invalid value that may continue, or -1
    repeated: dict[str, list[Any]] = {}
    for entry in body.entries:
        setting = known.get(str(entry.key))  # comparing lark tokens is slow
        if setting is not None:
            value = _read_entry(context, setting, entry, given)
            if isinstance(value, InvalidValue):
                invalid_end = entry.end_pos if _may_continue(setting, entry) else -1
            elif _repeats(setting):
                repeated.setdefault(setting.name, []).append(value)
        elif invalid_end >= 0 and "\n" not in context.collector.text[invalid_end : entry.start_pos]:
            context.mention(entry.key, entry.value, entry.body)  # the rest of that value; it may be a secret
            invalid_end = entry.end_pos
        else:
            present = present or {str(other.key) for other in body.entries}
            meant = _unknown(context, entry, known, present, head)
            given.misspelt |= {meant} if meant else set()
            given.unknown.append(entry)
            given.good = False
    given.values |= {name: tuple(values) for name, values in repeated.items()}


def _read_entry(
    context: CheckState, setting: Setting, entry: EntryNode, given: BodyValues
) -> Any | InvalidValue | None:
    """Read the value of an entry and add it to `given`. Returns None if the setting was given before."""
    earlier = given.entries.setdefault(setting.name, [])
    earlier.append(entry)
    if len(earlier) > 1 and not _repeats(setting):
        _add_duplicate(context, entry, earlier[0])
        given.good = False
        return None
    value = _value(context, setting, entry)
    if isinstance(value, InvalidValue):
        given.good = False
    elif not _repeats(setting):
        given.values[setting.name] = value
    return value


def _repeats(setting: Setting) -> bool:
    """True if the setting may be given several times."""
    return setting.many and setting.type == "group"


def _may_continue(setting: Setting, entry: EntryNode) -> bool:
    """True if an invalid value may be only the beginning of the intended one: the first word of a text without quotes,
    the first quotes of `""text""`, or the key repeated."""
    value = entry.value
    if not isinstance(value, Token) or entry.body is not None:
        return False
    return (value.type in {"WORD", "NUMBER"} and setting.type in STRING_TYPES) or str(value) in {'""', entry.key}


def _unknown(
    context: CheckState, entry: EntryNode, known: Settings, present: Collection[str], head: CheckedHead
) -> str | None:
    """Report an unknown key. Returns the setting it was probably meant to be, which then counts as given, or None."""
    if isinstance(entry.value, MissingToken):  # reported; it may not be a key at all
        return None
    what = "group" if entry.value is None else "setting"
    if context.collector.full:
        context.collector.add("N202", f"`{head.name}` has no {what} `{entry.key[:64]}`", entry.key)
        return None
    repeats = {name for name, setting in known.items() if _repeats(setting)}
    free = [name for name in known if name not in present or name in repeats]
    near = nearest(entry.key, free) or _part_of(entry.key, free)
    if near is None and entry.body is not None and entry.body.start_pos in context.damaged:  # that was reported
        context.mention(entry.value, entry.body)
        return None
    start, end = entry.key.start_pos or 0, entry.key.end_pos or 0
    fix = context.collector.fix(f"write `{near}`", (start, end, near)) if near else None
    hint = f"did you mean `{near}`?" if near else suggestion("", known, what="settings here")
    context.collector.add("N202", f"`{head.name}` has no {what} `{entry.key[:64]}`", entry.key, hint=hint, fix=fix)
    if near and known[near].type == "group" and entry.value is None:
        _group(context, known[near], entry)
    else:
        context.mention(entry.value, entry.body)
    return near


def _part_of(key: str, names: Iterable[str]) -> str | None:
    """The only one of `names` that is a part of a compound key, as `secret` of `webhook_secret`; else None."""
    parts = {*re.split(r"[_-]", key.casefold()[:_MAX_KEY])}
    found = [name for name in names if name in parts]
    return found[0] if len(found) == 1 else None


def _add_duplicate(context: CheckState, entry: EntryNode, first: EntryNode) -> None:
    """Report a setting that is given a second time, with a fix that removes it."""
    collector = context.collector
    if first.body is not None and not first.body.entries and first.body.start_pos in context.damaged:
        return  # an empty unclosed body, which was reported; this is the same head again
    # If the values differ, the second may be the new one, for example of a replaced secret.
    same = _value_text(collector.text, entry) == _value_text(collector.text, first)
    collector.add(
        "N203",
        f"`{entry.key}` is given twice",
        entry.key,
        hint="remove one",
        labels=[collector.label("first given here", first.key)],
        fix=collector.fix(f"remove the second `{entry.key}`", _removal(collector.text, entry), safe=same),
    )


def _value_text(text: str, entry: EntryNode) -> str:
    """Source text of an entry after its key."""
    return text[entry.key.end_pos : entry.end_pos].strip(" \t")


def _removal(text: str, entry: EntryNode) -> tuple[int, int, str]:
    """Edit that removes an entry: its whole line if nothing else is on it, else up to the text that follows."""
    start, end = entry.start_pos, entry.end_pos
    while text[end : end + 1] in {" ", "\t", ","}:
        end += 1
    before = text.rfind("\n", 0, start) + 1
    rest = text[end : end + 2]
    if text[before:start].isspace() or before == start:
        if rest[:1] == "\n" or rest == "\r\n":
            return (before, text.index("\n", end) + 1, "")
    elif rest[:1] in {"", "\n", "\r", "#", "/"}:
        end = entry.end_pos
        start = before + len(text[before:start].rstrip(" \t"))
    return (start, end, "")


def _value(context: CheckState, setting: Setting, entry: EntryNode) -> Any | InvalidValue:
    """Read the value of an entry; an error is reported and gives `INVALID`."""
    if isinstance(entry.value, MissingToken):
        if setting.type == "reference":
            context.nameless.add(f"{LOST_REFERENCE}{setting.block}")
        return INVALID
    if setting.type == "group":
        return _group(context, setting, entry)
    if entry.value is None:
        hint = f"such as `{example(setting)}`"
        context.collector.add("T401", f"`{setting.name}` takes a value", entry.key, hint=hint)
        return INVALID
    if setting.type == "reference" and entry.body is not None:
        message, hint = (
            "a block inside another block",
            f"move this `{setting.name}` to the top level and leave only its name here",
        )
        context.collector.add("N202", message, entry.key, hint=hint)
        context.mention(entry.value, entry.body)
        return INVALID
    value = read_value(context, setting, entry.value)
    if isinstance(value, InvalidValue):
        context.mention(entry.value, entry.body)
        return value
    if setting.type == "variant":
        return _variant(context, setting, entry, value)
    if entry.body is not None:
        context.collector.add("N202", f"`{setting.name}` takes no options", entry.key, hint="remove the braces")
        context.mention(entry.body)
        return INVALID
    return value


def _group(context: CheckState, setting: Setting, entry: EntryNode) -> Any | InvalidValue:
    if entry.value is not None or entry.body is None:
        hint = f"such as `{example(setting)}`"
        context.collector.add("T401", f"`{setting.name}` takes settings in braces", entry.value or entry.key, hint=hint)
        return INVALID
    given = read_body(context, setting.settings, entry.body, CheckedHead(entry.key, setting.name))
    return given.values if given.good else INVALID


def _variant(context: CheckState, setting: Setting, entry: EntryNode, name: str) -> CheckedVariant | InvalidValue:
    row = context.vocabulary.rows(setting.family or "")[name]
    given = read_body(context, row.options, entry.body, CheckedHead(entry.key, f"{setting.name} {name}"))
    return CheckedVariant(name, given.values) if given.good else INVALID


def may_be_misnamed(context: CheckState, setting: Setting, given: BodyValues) -> bool:
    """True if an unknown key may be a misnamed `setting`, because its value is valid for it. Then only the key is
    reported."""
    if setting.type == "group":
        return any(entry.value is None for entry in given.unknown)
    plain = (entry.value for entry in given.unknown if entry.value is not None and entry.body is None)
    return any(not isinstance(read_value(context.scratch, setting, value), InvalidValue) for value in plain)


def _check_complete(context: CheckState, settings: Sequence[Setting], given: BodyValues, head: CheckedHead) -> None:
    """Check that required settings are present and that the given ones fit together."""
    reported: set[tuple[str, ...]] = set()
    for setting in settings:
        entry = given.entry(setting.name)
        if setting.required and not given.may_have(setting.name) and not may_be_misnamed(context, setting, given):
            hint = f"add `{example(setting)}`"
            context.collector.add("T404", f"`{head.name}` needs `{setting.name}`", head.place, hint=hint)
            given.good = False
        missing = setting.one_of and not given.unknown and not any(map(given.may_have, setting.one_of))
        if missing and setting.one_of not in reported:
            reported.add(setting.one_of)
            names = _alternatives(setting.one_of)
            hint = f"add `{example(setting)}`"
            context.collector.add("T405", f"`{head.name}` needs {names}", head.place, hint=hint)
            given.good = False
        if entry is not None:
            _check_needs_and_excludes(context, setting, entry, given)
            if not any(set(setting.needs_one) <= set(names) for names in reported):
                _check_needs_one(context, setting, by_name(settings), entry, given)
        elif setting.type == "variant" and setting.default is not None:
            _default_variant(context, setting, given, head)
    if given.good:
        _check_agreement(context, settings, given)


def _check_agreement(context: CheckState, settings: Sequence[Setting], given: BodyValues) -> None:
    """Check that settings, each valid on its own, are consistent."""
    for misfit in misfits(settings, given.values):
        entry, other = given.entry(misfit.name), given.entry(misfit.other or "")
        labels = [context.collector.label(f"`{misfit.other}` is given here", other.key)] if other else []
        assert entry is not None  # only what is given is a misfit
        context.collector.add("T405", misfit.message, entry.key, hint=misfit.hint, labels=labels)
        given.good = False


def _check_needs_one(
    context: CheckState, setting: Setting, known: Settings, entry: EntryNode, given: BodyValues
) -> None:
    """Check that one of the settings in `needs_one` is present."""
    wanted = setting.needs_one
    if wanted and not given.unknown and not any(map(given.may_have, wanted)):
        hint = f"add `{example(known[wanted[0]])}`"
        context.collector.add("T405", f"`{setting.name}` needs {_alternatives(wanted)}", entry.key, hint=hint)
        given.good = False


def _alternatives(names: Sequence[str]) -> str:
    """`a`, `b` or `c`."""
    *first, last = [f"`{name}`" for name in names]
    return f"{', '.join(first)} or {last}" if first else last


def _default_variant(context: CheckState, setting: Setting, given: BodyValues, head: CheckedHead) -> None:
    """Check the options of the default variant, which may be required."""
    row = context.vocabulary.rows(setting.family or "").get(setting.default)
    options = read_body(
        context, row.options if row else (), None, CheckedHead(head.place, f"{setting.name} {setting.default}")
    )
    given.good = given.good and options.good


def _check_needs_and_excludes(context: CheckState, setting: Setting, entry: EntryNode, given: BodyValues) -> None:
    collector = context.collector
    for name in setting.needs:
        if not given.may_have(name):
            collector.add("T405", f"`{setting.name}` needs `{name}`", entry.key, hint=f"add `{name}`")
            given.good = False
    for name in setting.excludes:
        other = given.entry(name)
        if other is not None:
            label = collector.label(f"`{name}` is given here", other.key)
            message = f"`{setting.name}` and `{name}` exclude each other"
            collector.add("T405", message, entry.key, hint="remove one", labels=[label])
            given.good = False

"""Checks the settings of one body: known, given once, of the right type, complete."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from lark import Token

from dslc.blocks.checked_variant import CheckedVariant
from dslc.blocks.relations import misfits
from dslc.diagnostics.suggestion import nearest, suggestion
from dslc.example import example
from dslc.setting import STRING_TYPES, Setting
from dslc.syntax.tree import Body, EntryNode, MissingToken, ValueNode
from dslc.value_reading.check_state import INVALID, LOST_REFERENCE, BodyValues, CheckedHead, CheckState, InvalidValue
from dslc.value_reading.value import read_key, read_value
from dslc.vocabulary import Settings, by_name

_OTHER_WORDS: Final = {
    **dict.fromkeys(("budget", "budgets", "quota", "rate_limit"), "limits"),
    **dict.fromkeys(("prompt", "system", "system_prompt"), "instruction"),
    **dict.fromkeys(("approve", "approval"), "confirm"),
}
"""Settings by words of the same meaning that look otherwise."""
_MAX_KEY = 64
_VALUE = re.compile(r"[ \t]++[\w\"]")
_SIGN = re.compile(r"[ \t]*+[^\w\s\"{},#/]")


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
            elif setting.repeats:
                repeated.setdefault(setting.name, []).append(value)
        elif invalid_end >= 0 and "\n" not in context.collector.text[invalid_end : entry.start_pos]:
            context.mention(entry.key, entry.value, entry.body)  # the rest of that value; it may be a secret
            invalid_end = entry.end_pos
        else:
            present = present or {str(other.key) for other in body.entries}
            meant = _report_unknown(context, entry, known, present, head)
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
    if len(earlier) > 1 and not setting.repeats:
        _add_duplicate(context, entry, earlier[0])
        given.good = False
        return None
    value = _value(context, setting, entry)
    if isinstance(value, InvalidValue):
        given.good = False
    elif not setting.repeats:
        given.values[setting.name] = value
    elif setting.named and _name_is_taken(context, entry, earlier[:-1]):
        given.good = False
        return INVALID
    return value


def _name_is_taken(context: CheckState, entry: EntryNode, earlier: Sequence[EntryNode]) -> bool:
    """Report a named group if one of the `earlier` ones has its name. Returns True if so."""
    first = next((other for other in earlier if other.word == entry.word), None)
    if first is not None:
        _add_duplicate(context, entry, first, f"{entry.key} {entry.word}")
    return first is not None


def _may_continue(setting: Setting, entry: EntryNode) -> bool:
    """True if an invalid value may be only the beginning of the intended one: the first word of a text without quotes,
    the first quotes of `""text""`, or the key repeated."""
    value = entry.value
    if not isinstance(value, Token) or entry.body is not None:
        return False
    return (value.type in {"WORD", "NUMBER"} and setting.type in STRING_TYPES) or str(value) in {'""', entry.key}


def _report_unknown(
    context: CheckState, entry: EntryNode, known: Settings, present: Collection[str], head: CheckedHead
) -> str | None:
    """Report an unknown key. Returns the setting it was probably meant to be, which then counts as given, or None."""
    if isinstance(entry.value, MissingToken):  # reported; it may not be a key at all
        return None
    what = "group" if entry.value is None else "setting"
    # A string in place of a key is not shown: it may be a misplaced value.
    name = "of this name" if entry.key.type == "STRING" else f"`{entry.key[:64]}`"
    message = f"`{head.name}` has no {what} {name}"
    if context.collector.full:
        context.collector.add("N202", message, entry.key)
        return None
    repeats = {name for name, setting in known.items() if setting.repeats}
    free = [name for name in known if name not in present or name in repeats]
    near = nearest(entry.key, free) or _part_of(entry.key, free) or _same_meaning(entry.key, free)
    if near is None and entry.body is not None and entry.body.start_pos in context.damaged:  # that was reported
        context.mention(entry.value, entry.body)
        return None
    start, end = entry.key.start_pos or 0, entry.key.end_pos or 0
    fix = context.collector.fix(f"write `{near}`", (start, end, near)) if near else None
    hint = f"did you mean `{near}`?" if near else suggestion("", known, what="settings here")
    context.collector.add("N202", message, entry.key, hint=hint, fix=fix)
    if near and known[near].takes_body(1 if entry.value is None else 2) and known[near].type == "group":
        _group(context, known[near], entry)
    else:
        context.mention(entry.value, entry.body)
    return near


def _same_meaning(key: str, names: Collection[str]) -> str | None:
    name = _OTHER_WORDS.get(key.casefold())
    return name if name in names else None


def _part_of(key: str, names: Iterable[str]) -> str | None:
    """The only one of `names` that is a part of a compound key, as `secret` of `webhook_secret`; else None."""
    parts = {*re.split(r"[_-]", key.casefold()[:_MAX_KEY])}
    found = [name for name in names if name in parts]
    return found[0] if len(found) == 1 else None


def _add_duplicate(context: CheckState, entry: EntryNode, first: EntryNode, what: str = "") -> None:
    """Report a setting that is given a second time, with a fix that removes it. `what`: the setting, by default its
    key."""
    what = what or str(entry.key)
    collector = context.collector
    if first.body is not None and not first.body.entries and first.body.start_pos in context.damaged:
        return  # an empty unclosed body, which was reported; this is the same head again
    # If the values differ, the second may be the new one, for example of a replaced secret.
    same = _value_text(collector.text, entry) == _value_text(collector.text, first)
    collector.add(
        "N203",
        f"`{what}` is given twice",
        entry.key,
        hint="remove one",
        labels=[collector.label("first given here", first.key)],
        fix=collector.fix(f"remove the second `{what}`", _removal(collector.text, entry), safe=same),
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
        if setting.block is not None:
            context.nameless.add(f"{LOST_REFERENCE}{setting.block}")
        return INVALID
    if setting.type in {"group", "map"}:
        return (_group if setting.type == "group" else _map)(context, setting, entry)
    if entry.value is None:
        hint = f"such as `{example(setting)}`"
        context.collector.add("T401", f"`{setting.name}` takes a value", entry.key, hint=hint)
        return INVALID
    if setting.type == "variant":
        return _variant(context, setting, entry, entry.value)
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
    elif entry.body is not None:
        context.collector.add("N202", f"`{setting.name}` takes no options", entry.key, hint="remove the braces")
        context.mention(entry.body)
        return INVALID
    return value


def _is_no_block(context: CheckState, entry: EntryNode) -> bool:
    """True if the value of a variant cannot be the name of a block: it has options, or it is the key written twice."""
    return entry.body is not None or (
        entry.value == entry.key and _VALUE.match(context.collector.text, entry.end_pos) is not None
    )


def _may_lose_body(context: CheckState, entry: EntryNode) -> bool:
    """True if an unreadable sign follows an entry, and its body may be lost with it; the sign was reported."""
    return entry.body is None and _SIGN.match(context.collector.text, entry.end_pos) is not None


def _group(context: CheckState, setting: Setting, entry: EntryNode) -> Any | InvalidValue:
    if setting.named:
        return _named_group(context, setting, entry)
    if entry.value is not None or entry.body is None:
        _add_no_body(context, setting, entry)
        return INVALID
    given = read_body(context, setting.settings, entry.body, CheckedHead(entry.key, setting.name))
    return given.values if given.good else INVALID


def _add_no_body(context: CheckState, setting: Setting, entry: EntryNode) -> None:
    hint = f"such as `{example(setting)}`"
    context.collector.add("T401", f"`{setting.name}` takes settings in braces", entry.value or entry.key, hint=hint)


def _named_group(context: CheckState, setting: Setting, entry: EntryNode) -> Any | InvalidValue:
    """Read `key name { … }`; the name is one of the values."""
    name: Any = INVALID
    if isinstance(entry.value, Token) and entry.value.type in {"WORD", "STRING"}:
        name = read_value(context, Setting(setting.name, "name"), entry.value)
    else:
        hint = f"such as `{setting.name} a-name {{ … }}`"
        context.collector.add("N206", f"this `{setting.name}` has no name", entry.value or entry.key, hint=hint)
    if entry.body is None:
        if not isinstance(name, InvalidValue) and not _may_lose_body(context, entry):
            _add_no_body(context, setting, entry)
        return INVALID
    head = CheckedHead(entry.key, setting.name if isinstance(name, InvalidValue) else f"{setting.name} {name}")
    given = read_body(context, setting.settings, entry.body, head)
    return {"name": name, **given.values} if given.good and not isinstance(name, InvalidValue) else INVALID


def _map(context: CheckState, setting: Setting, entry: EntryNode) -> Any | InvalidValue:
    """Read a group with free keys."""
    if entry.value is not None or entry.body is None:
        _add_no_body(context, setting, entry)
        return INVALID
    values: dict[str, Any] = {}
    firsts: dict[str, EntryNode] = {}
    good = entry.body.start_pos not in context.damaged
    for inner in entry.body.entries:
        key = read_key(context, setting, inner.key)
        if isinstance(key, InvalidValue):
            context.mention(inner.value, inner.body)
            good = False
            continue
        # The names of headers are the same in upper and lower case.
        first = firsts.setdefault(key.lower() if setting.keys == "header_name" else key, inner)
        if first is not inner:
            _add_duplicate(context, inner, first, key)
            good = False
            continue
        value = _value(context, setting.item(key), inner)
        good = good and not isinstance(value, InvalidValue)
        values[key] = value
    return values if good else INVALID


def _variant(
    context: CheckState, setting: Setting, entry: EntryNode, value: ValueNode
) -> CheckedVariant | InvalidValue:
    """Read a row with its options, or the name of a block, which has its own settings."""
    only_row = _is_no_block(context, entry)
    name = read_value(context, setting._replace(block=None) if only_row else setting, value)
    if isinstance(name, InvalidValue):
        context.mention(entry.value, entry.body)
        if only_row and setting.block is not None:  # the name of a block may be lost with the mistake
            context.nameless.add(f"{LOST_REFERENCE}{setting.block}")
        return INVALID
    row = context.vocabulary.rows(setting.family or "").get(name)
    if row is None:
        return CheckedVariant(name, {})
    if _may_lose_body(context, entry):
        return INVALID
    given = read_body(context, row.options, entry.body, CheckedHead(entry.key, f"{setting.name} {name}"))
    return CheckedVariant(name, given.values) if given.good else INVALID


def may_be_misnamed(context: CheckState, setting: Setting, given: BodyValues) -> bool:
    """True if an unknown key may be a misnamed `setting`, because its value is valid for it. Then only the key is
    reported."""
    if setting.type in {"group", "map"}:
        return any((entry.value is not None) == setting.named for entry in given.unknown)
    plain = (entry.value for entry in given.unknown if entry.value is not None and entry.body is None)
    return any(not isinstance(read_value(context.scratch, setting, value), InvalidValue) for value in plain)


def _check_complete(context: CheckState, settings: Sequence[Setting], given: BodyValues, head: CheckedHead) -> None:
    """Check that required settings are present and that the given ones fit together."""
    reported: set[tuple[str, ...]] = set()
    for setting in settings:
        entry = given.entry(setting.name)
        if setting.required and not given.may_have(setting.name) and not may_be_misnamed(context, setting, given):
            hint = f"add `{example(setting)}`"
            context.reject(given, "T404", f"`{head.name}` needs `{setting.name}`", head.place, hint=hint)
        missing = setting.one_of and not given.unknown and not any(map(given.may_have, setting.one_of))
        if missing and setting.one_of not in reported:
            reported.add(setting.one_of)
            names = _alternatives(setting.one_of)
            hint = f"add `{example(setting)}`"
            context.reject(given, "T405", f"`{head.name}` needs {names}", head.place, hint=hint)
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
        assert entry is not None  # only what is given is a misfit
        context.reject(given, "T405", misfit.message, entry.key, hint=misfit.hint, beside=other)


def _check_needs_one(
    context: CheckState, setting: Setting, known: Settings, entry: EntryNode, given: BodyValues
) -> None:
    """Check that one of the settings in `needs_one` is present."""
    wanted = setting.needs_one
    if wanted and not given.unknown and not any(map(given.may_have, wanted)):
        hint = f"add `{example(known[wanted[0]])}`"
        context.reject(given, "T405", f"`{setting.name}` needs {_alternatives(wanted)}", entry.key, hint=hint)


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
    for name in setting.needs:
        if not given.may_have(name):
            context.reject(given, "T405", f"`{setting.name}` needs `{name}`", entry.key, hint=f"add `{name}`")
    for name in setting.excludes:
        other = given.entry(name)
        if other is not None:
            message = f"`{setting.name}` and `{name}` exclude each other"
            context.reject(given, "T405", message, entry.key, hint="remove one", beside=other)

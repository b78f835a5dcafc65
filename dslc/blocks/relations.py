"""Checks of relations between the options of one row: required, excluded, different from each other.

`dslc check` and the runtime's models use these checks, both with the options as the catalog describes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from dslc.diagnostics.suggestion import listing
from dslc.example import example
from dslc.setting import Setting

_PART = re.compile(r"\{(\w+)\}")


class Misfit(NamedTuple):
    """An option that conflicts with another option. `other`: the conflicting or missing option."""

    name: str
    message: str
    hint: str
    other: str | None = None


def misfits(settings: Sequence[Setting], given: Mapping[str, Any]) -> Iterator[Misfit]:
    """Conflicts between options whose values are valid by themselves. Defaults count as if they were given."""
    known = {setting.name: setting for setting in settings}
    values = {name: given.get(name, setting.default) for name, setting in known.items()}
    for setting in (setting for setting in settings if setting.name in given):
        yield from _mixed_families(setting, values)
        yield from _refused_values(setting, values)
        yield from _missing_headers(setting, settings, given)
        yield from _unsigned_parts(setting, settings, values)
    yield from _same_headers(settings, given, values)


def lacking(settings: Sequence[Setting], given: Mapping[str, Any]) -> Iterator[Misfit]:
    """Options that are given without one they need, or together with one they exclude."""
    for setting in (setting for setting in settings if setting.name in given):
        for name in setting.needs:
            if name not in given:
                yield Misfit(setting.name, f"`{setting.name}` needs `{name}`", f"add `{name}`", name)
        for name in setting.excludes:
            if name in given:
                yield Misfit(setting.name, f"`{setting.name}` and `{name}` exclude each other", "remove one", name)


def _mixed_families(setting: Setting, values: Mapping[str, Any]) -> Iterator[Misfit]:
    if setting.families and not any(set(values[setting.name]) <= set(family) for family in setting.families):
        families = "; ".join(", ".join(family) for family in setting.families)
        yield Misfit(setting.name, f"`{setting.name}` must all be of one family", f"families are {families}")


def _refused_values(setting: Setting, values: Mapping[str, Any]) -> Iterator[Misfit]:
    for other, refused in setting.refuses:
        value = values[other]
        wrong = [item for item in (value if isinstance(value, list | tuple) else [value]) if item in refused]
        if wrong:
            message = f"`{setting.name}` and `{other} {wrong[0]}` exclude each other"
            yield Misfit(setting.name, message, f"`{other}` cannot be {listing(refused)} here", other)


def _missing_headers(setting: Setting, settings: Sequence[Setting], given: Mapping[str, Any]) -> Iterator[Misfit]:
    """Report a template's part for which no option names the header."""
    for part in _PART.findall(given[setting.name]) if setting.type == "template" else ():
        source = next((other for other in settings if other.fills == part), None)
        if source is not None and source.name not in given:
            message = f"`{setting.name}` signs {{{part}}}: `{source.name}` must name the header that holds it"
            yield Misfit(setting.name, message, f"add `{example(source)}`", source.name)


def _unsigned_parts(setting: Setting, settings: Sequence[Setting], values: Mapping[str, Any]) -> Iterator[Misfit]:
    """Report an option that is only useful if a template signs its part."""
    templates = [other for other in settings if other.type == "template"] if setting.signed_only else []
    if templates and not any(setting.fills in _PART.findall(values[template.name]) for template in templates):
        name = templates[0].name
        message = f"`{name}` does not sign {{{setting.fills}}}, so `{setting.name}` gives no protection"
        yield Misfit(setting.name, message, f'such as `{name} "{{{setting.fills}}}.{{body}}"`', name)


def _same_headers(settings: Sequence[Setting], given: Mapping[str, Any], values: Mapping[str, Any]) -> Iterator[Misfit]:
    """Report two options that name the same header but must differ."""
    seen: dict[str, str] = {}
    distinct = (setting.name for setting in settings if setting.distinct and values[setting.name])
    for name in sorted(distinct, key=lambda name: name in given):  # report the given option, not a default
        first = seen.setdefault(values[name].lower(), name)
        if first != name:
            yield Misfit(name, f"`{name}` and `{first}` name the same header", "each needs a different header", first)

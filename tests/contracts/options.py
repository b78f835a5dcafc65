"""Valid and invalid values for the options of a row.

All of them come from the catalog, so that added rows and options are tried too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from dslc.catalog import CatalogEntry
from dslc.example import needed_settings
from dslc.setting import Setting
from dslc.syntax.quoting import quoted

URL = "https://hooks.example.org/w"
_HEADERS = ("X-Own", "", " ", "Bad Header", "X: Y", "X-Ünïcode", "x" * 128, "x" * 129, "X-Signature-256")
_TEXTS = ("", " ", "x", " v1=", "v1=", "{nope}", "ü", "\x07", "x" * 3000, "pg_x", "a,b", "http://example.org/keys")
_TEMPLATES = (
    "", "body", "{body}", "v0:{body}", "{timestamp}.{body}", "{timestamp}{body}", "{body}{timestamp}", "{body}{body}",
    "{id}.{body}", "{id}{body}", "{body}.{id}", "{body}{id}", "{id}{timestamp}.{body}", "{id}.{timestamp}.{body}",
    "{body}.{timestamp}{id}", "{timestamp}", "{nope}.{body}", "{url}{body}", "{method}{body}", "{body", "{}{body}",
)  # fmt: skip
_DURATIONS = ("0s", "1ms", "999ms", "1s", "5m", "5m1s", "10m", "1d", "1d1s", "2d", "90d")
BESIDE = 12  # values of an option that are tried beside every other option
_FEW = 3  # values of a setting of a group that are tried beside those of all others
_URLS = (
    URL,
    "http://example.org/keys",
    "ftp://example.org/",
    "example.org",
    "https://user:pw@example.org/",
    "",
    "https:",
)


class Given(NamedTuple):
    """One option as a program writes it, and as the model gets it."""

    name: str
    written: str
    value: object


def values(option: Setting) -> Iterator[Given]:
    """Return values for the option: at and beyond each bound, of every form, and the example."""
    if option.type == "map":
        yield from _maps(option)
        return
    singles = [_single(option, value) for value in _plain(option)]
    if not option.many:
        yield from singles
        return
    yield Given(option.name, f"{option.name} []", ())
    for several in [*([one] for one in singles), *map(list, combinations(singles, 2))]:
        items = " ".join(one.written.partition(" ")[2] for one in several)
        yield Given(option.name, f"{option.name} [{items}]", tuple(one.value for one in several))


_MAPS: tuple[Mapping[str, str], ...] = (
    {"X-Team": "core"},
    {"X-Team": "core", "X-Key": "secret://env/OPTION"},
    {},
    {"Host": "x"},
    {"X-Team": "a\nb"},
    {"X-Team": "ü"},
    {"X-Team": ""},
)


def _maps(option: Setting) -> Iterator[Given]:
    for value in _MAPS:
        inside = " ".join(f"{key} {quoted(text)}" for key, text in value.items())
        yield Given(option.name, f"{option.name} {{ {inside} }}", value)


def _plain(option: Setting) -> Sequence[Any]:
    given = option.example if option.example is not None else option.default
    examples = given if isinstance(given, list) else [] if given is None else [given]
    match option.type:
        case "boolean":
            return (True, False)
        case "word":
            return (*(option.choices or ()), "nonsense")
        case "integer" | "number":
            bounds = [bound for bound in (option.minimum, option.maximum) if isinstance(bound, int | float)]
            return (*examples, *bounds, *(bound - 1 for bound in bounds), *(bound + 1 for bound in bounds))
        case "secret":
            return ("secret://env/OPTION",)
        case "variant":
            return ()
    own: Mapping[str, Sequence[str]] = {"header_name": _HEADERS, "template": _TEMPLATES, "duration": _DURATIONS}
    lengths = [
        "x" * n for bound in (option.min_length, option.max_length) if bound for n in (bound - 1, bound, bound + 1)
    ]
    return [*examples, *own.get(option.type, _URLS if option.type == "url" else _TEXTS), *lengths]


def _single(option: Setting, value: Any) -> Given:
    if isinstance(value, bool):
        written = str(value).lower()
    elif isinstance(value, int | float) or option.type in {"duration", "word"}:
        written = str(value)
    else:
        written = quoted(value)
    return Given(option.name, f"{option.name} {written}", value)


def example(option: Setting) -> Given:
    """Return its example: the first value, or the whole list."""
    if not option.many:
        return next(values(option))
    given = option.example or option.default or ["x"]
    return Given(option.name, f"{option.name} [{' '.join(map(quoted, given))}]", tuple(given))


def option_sets(row: CatalogEntry, beside: int = BESIDE) -> Iterator[list[Given]]:
    """Return sets of options: none; each value alone, with its requirements and without; pairs; a required one missing.

    `beside`: how many values of an option are tried beside every other option.
    """
    always = [option for option in row.options if option.required]
    yield []
    yield [example(option) for option in always]
    for option in row.options:
        partners = [each for each in needed_settings(row.options, [option]) if each.name != option.name]
        others = [each for each in row.options if each.name != option.name]
        for value in values(option):
            yield [value]
            yield [*map(example, partners), value]
            yield [*(example(each) for each in always if each.name != option.name), value]
        for other in others:
            for value in list(values(other))[:beside]:
                with_it = [each for each in needed_settings(row.options, [option, other]) if each.name != other.name]
                yield [*map(example, with_it), value]


def settings(of: Iterable[Setting], depth: int = 0) -> Iterator[Given]:
    """Return values for each setting of a body except rows and names of blocks; two levels of groups."""
    for setting in of:
        if setting.type == "group" and not setting.named:
            yield from _groups(setting, depth) if depth < 2 else ()
        elif setting.type not in {"group", "variant", "reference"}:
            yield from values(setting)


def _groups(group: Setting, depth: int) -> Iterator[Given]:
    """Return an empty group, and groups with each setting alone, beside the first requirement, and in pairs."""
    inner = list(settings(group.settings, depth + 1))
    first = {given.name: given for given in reversed(inner)}
    needed_first = [first[name] for name in ("json_path", "equals") if name in first]
    few = [given for name in first for given in [each for each in inner if each.name == name][:_FEW]]
    sets = [[], *([each] for each in inner), *(list(pair) for pair in combinations(few, 2) if depth == 0)]
    sets += [[*needed_first[:count], each] for count in (1, 2) for each in inner if needed_first]
    several = {setting.name for setting in group.settings if setting.many and setting.type == "group"}
    for given in sets:
        if len({each.name for each in given}) == len(given):
            written = " ".join(each.written for each in given)
            value = {each.name: (each.value,) if each.name in several else each.value for each in given}
            yield Given(group.name, f"{group.name} {{ {written} }}", value)

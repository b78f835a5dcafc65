"""Settings in the reference: a row of the overview, and a section, for each."""

from __future__ import annotations

from collections.abc import Sequence

from dslc.example import example, write_default
from dslc.reference.markdown import anchor, code, listing, sentence, table
from dslc.reference.titles import family_page
from dslc.setting import Setting
from dslc.vocabulary import Vocabulary

_VALUES = "values.md"
_NONE = "—"
_TYPES = {
    "string": f"[string]({_VALUES}#strings)",
    "scalar": f"[string, number or boolean]({_VALUES}#strings)",
    "integer": f"[whole number]({_VALUES}#numbers)",
    "number": f"[number]({_VALUES}#numbers)",
    "boolean": f"[boolean]({_VALUES}#booleans)",
    "word": f"[word]({_VALUES}#words-and-names)",
    "duration": f"[duration]({_VALUES}#durations)",
    "size": f"[size]({_VALUES}#sizes)",
    "url_path": f"[URL path]({_VALUES}#url-paths)",
    "url": f"[URL]({_VALUES}#urls)",
    "json_path": f"[JSONPath]({_VALUES}#jsonpath)",
    "header_name": f"[header]({_VALUES}#headers)",
    "pattern": f"[pattern]({_VALUES}#patterns)",
    "event": f"[event]({_VALUES}#events)",
    "template": f"[template]({_VALUES}#templates)",
    "tool": f"[tool]({_VALUES}#tools)",
    "network": f"[network]({_VALUES}#networks)",
    "secret": f"[secret]({_VALUES}#secrets)",
    "header_value": f"[string]({_VALUES}#strings) or [secret]({_VALUES}#secrets)",
    "env_value": f"[string]({_VALUES}#strings) or [secret]({_VALUES}#secrets)",
    "name": f"[name]({_VALUES}#words-and-names)",
    "group": "group",
}


def overview(settings: Sequence[Setting], prefix: str = "") -> str:
    """Return a table of settings, each with a link to its section."""
    rows = [
        (
            f"[{code(setting.name)}](#{anchor(prefix + setting.name)})",
            _type(setting),
            _default(setting),
            first_of(setting),
        )
        for setting in settings
    ]
    return table(("setting", "type", "default", ""), rows)


def first_of(setting: Setting) -> str:
    """Return the first sentence of a setting's documentation."""
    return sentence(setting.doc)


def sections(
    settings: Sequence[Setting],
    vocabulary: Vocabulary,
    level: int,
    prefix: str = "",
    around: Sequence[tuple[str, Setting]] = (),
) -> list[str]:
    """Return a section for each setting, followed by sections for the settings of a group. A group that has the
    settings of an enclosing group only refers to it. `around`: headings and settings of the enclosing groups."""
    parts = []
    for setting in settings:
        name = f"{prefix}{setting.name}"
        same = same_as(setting, around)
        lines = [
            *facts(setting, vocabulary),
            ("Settings", f"those of [{code(same)}](#{anchor(same)}), with less nesting" if same else ""),
            *relations(setting, settings),
            ("Example", _example(setting, vocabulary)),
        ]
        shown = "\n".join(f"- {label}: {text}" for label, text in lines if text)
        parts += [f"{'#' * level} {name}", setting.doc, shown]
        if not same:
            parts += sections(setting.settings, vocabulary, level + 1, f"{name}.", [*around, (name, setting)])
    return parts


def same_as(setting: Setting, around: Sequence[tuple[str, Setting]]) -> str | None:
    """Return the heading of the enclosing group that has all settings of the group `setting`; None if there is none."""
    names = {inner.name for inner in setting.settings}
    fits = (name for name, group in around if names <= {inner.name for inner in group.settings})
    return next(fits, None) if len(names) > 1 else None


def facts(setting: Setting, vocabulary: Vocabulary | None = None) -> list[tuple[str, str]]:
    """Return label and text of the properties of a setting, the type first; "" for one that it lacks. With the
    vocabulary, the rows of its family are among them."""
    return [
        ("Type", _type(setting)),
        ("Required", "yes" if setting.required else ""),
        ("Default", "" if setting.required or _default(setting) == _NONE else _default(setting)),
        ("Choices", listing(setting.choices) if setting.choices and setting.type != "template" else ""),
        (
            "Parts",
            listing((f"{{{part}}}" for part in setting.choices or ()), "and") if setting.type == "template" else "",
        ),
        ("Names" if setting.type == "map" else "Form", setting.form_says or ""),
        ("Choices", _rows(setting, vocabulary) if vocabulary else ""),
        ("Bounds", _bounds(setting)),
    ]


def relations(setting: Setting, siblings: Sequence[Setting]) -> list[tuple[str, str]]:
    """Return label and text of the relations to the other settings, declared by either side."""
    excluded = {*setting.excludes, *(other.name for other in siblings if setting.name in other.excludes)}
    one_of = next((other.one_of for other in siblings if setting.name in other.one_of), ())
    others = [other.name for other in siblings if other.distinct and other.name != setting.name]
    return [
        ("Needs", listing(setting.needs, "and") if setting.needs else ""),
        ("Needs", f"one of {listing(setting.needs_one)}" if setting.needs_one else ""),
        ("Excludes", listing(sorted(excluded), "and") if excluded else ""),
        ("Required", f"one of {listing(one_of)}" if one_of else ""),
        ("Items", f"of one family: {'; '.join(map(', '.join, setting.families))}" if setting.families else ""),
        *(("Excludes", f"{code(other)} {listing(values)}") for other, values in setting.refuses),
        ("Differs", f"from {listing(others)}" if setting.distinct and others else ""),
        ("Header of", _fills(setting)),
    ]


def _fills(setting: Setting) -> str:
    part = f"{code(f'{{{setting.fills}}}')} in the template" if setting.fills else ""
    return f"{part}, which must contain it" if setting.signed_only else part


def _example(setting: Setting, vocabulary: Vocabulary) -> str:
    """Return an example; "" for a variant whose family has no rows."""
    if setting.type == "variant" and not vocabulary.rows(setting.family or ""):
        return ""
    return code(example(setting, vocabulary))


def _type(setting: Setting) -> str:
    if setting.type == "reference":
        one = f"name of [{setting.block}]({setting.block}.md)"
    elif setting.type == "variant":
        block = f", or name of [{setting.block}]({setting.block}.md)" if setting.block else ""
        one = f"variant with options{block}"
    elif setting.type == "map":
        return f"[map]({_VALUES}#maps): {_TYPES[setting.keys or 'name']} to {_TYPES[setting.items or 'string']}"
    else:
        one = _TYPES[setting.type]
    if setting.named:
        return "groups, each with a name"
    if setting.type == "group":
        return "group, any number" if setting.many else one
    if setting.many:
        return f"{one}, or a list" if setting.single else f"list: {one}"
    return one


def _default(setting: Setting) -> str:
    """Return the default in the syntax of the language; a dash if there is none."""
    if setting.required:
        return "required"
    if setting.type in {"group", "map"} or setting.default in (None, []):
        return _NONE
    return code(write_default(setting))


def _rows(setting: Setting, vocabulary: Vocabulary) -> str:
    """Return the rows of the setting's family, each with a link."""
    if setting.family is None:
        return ""
    rows = vocabulary.rows(setting.family)
    links = ", ".join(f"[{code(name)}]({family_page(setting.family)}#{anchor(name)})" for name in rows)
    return links or ("any name; none is built in yet" if setting.type == "name" else "none is built in yet")


def _bounds(setting: Setting) -> str:
    low, high = setting.minimum, setting.maximum
    parts = [
        f"at least {code(str(low))}" if low is not None else "",
        f"at most {code(str(high))}" if high is not None else "",
    ]
    what = "items" if setting.many else "characters"
    what = what[:-1] if (setting.max_length or setting.min_length) == 1 else what
    if setting.min_length is not None and setting.max_length is not None:
        parts.append(f"{setting.min_length} to {setting.max_length} {what}")
    elif setting.min_length is not None:
        parts.append(f"at least {setting.min_length} {what}")
    elif setting.max_length is not None:
        parts.append(f"at most {setting.max_length} {what}")
    return ", ".join(filter(None, parts))

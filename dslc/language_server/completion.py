"""Completions at a position. They use only the outline, because a text that is being typed can rarely be parsed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dslc.catalog import CatalogEntry
from dslc.example import example, needed_settings, write_default
from dslc.language_server import markdown
from dslc.language_server.cursor_context import CursorContext
from dslc.setting import Setting
from dslc.syntax.quoting import write_name
from dslc.vocabulary import Settings, Vocabulary

Sort = Literal["kind", "setting", "group", "choice", "row", "name", "value"]
NamesOf = Callable[[str], Iterable[str]]
Words = Callable[[Setting], Sequence[str]]

_BEGUN = re.compile(r"secret://[^/]*/?")
_DURATIONS = ("30s", "5m", "1h", "1d", "7d", "30d", "90d", "6months", "1y")
_MOST_WORDS = 20  # choices in a snippet
_BODIES = {"group", "map"}
_KEYS = {"header_name": "X-Name"}
"""Example of a key of a map, by the type of the keys."""
_SIZES = ("64KiB", "256KiB", "1MiB", "5MiB", "25MB")
FIRST: Mapping[str, tuple[str, ...]] = {
    "memory": ("path", "retention"),
    "webhook": ("path", "provider", "secret", "agent"),
    "agent": ("memory", "instruction"),
    "model": ("service",),
    "mcp": ("command",),
}
"""Settings in the snippet of a new block; for other kinds, the required settings."""


@dataclass(frozen=True, slots=True)
class CompletionItem:
    """A completion: replaces `text[start:end]` by `insert`, or by `snippet` if the client supports snippets.

    `detail` is one line, `doc` is Markdown.
    """

    label: str
    sort: Sort
    start: int
    end: int
    insert: str
    snippet: str | None = None
    detail: str = ""
    doc: str = ""
    rank: int = 0


@dataclass(frozen=True)
class _At:
    """Position to complete: its context, the range to replace, and the names of the program."""

    cursor_context: CursorContext
    start: int
    end: int
    index: int
    vocabulary: Vocabulary
    declared: NamesOf
    missing: NamesOf

    def words(self, setting: Setting) -> Sequence[str]:
        """Choices of a setting, with the names declared in this program."""
        blocks = [*map(write_name, sorted(self.declared(setting.block)))] if setting.block is not None else []
        rows = () if setting.type == "reference" else words_of(setting, self.vocabulary)
        return [*blocks[:_MOST_WORDS], *rows]

    def item(self, label: str, sort: Sort, **more: str | int | None) -> CompletionItem:
        return replace(CompletionItem(label, sort, self.start, self.end, label), **more)  # type: ignore[arg-type]


def words_of(setting: Setting, vocabulary: Vocabulary) -> Sequence[str]:
    """Choices of a setting that are the same in every program."""
    if setting.type == "boolean":
        return ("false", "true") if setting.default is True else ("true", "false")
    return setting.choices or tuple(map(write_name, vocabulary.rows(setting.family or "")))


def complete(
    cursor_context: CursorContext, index: int, vocabulary: Vocabulary, declared: NamesOf, missing: NamesOf
) -> list[CompletionItem]:
    """Completions at `index` of a text, whose context is `cursor_context`.

    `declared` returns the declared names of a kind of block; `missing` returns names that are used but not declared.
    """
    if cursor_context.token is not None and cursor_context.token.quotes == 3:
        return []
    start = end = index
    whole = cursor_context.role == "key"  # with its quotes, which a setting does not have
    if cursor_context.token is not None and (cursor_context.inside or whole or not cursor_context.token.quotes):
        first, last = (
            cursor_context.token.inner
            if cursor_context.inside
            else (cursor_context.token.start, cursor_context.token.end)
        )
        start, end = min(first + cursor_context.base, index), max(last + cursor_context.base, index)
    here = _At(cursor_context, start, end, index, vocabulary, declared, missing)
    match cursor_context.role:
        case "kind":
            return list(_kinds(here))
        case "name" if cursor_context.entry is not None:
            return [
                here.item(name, "name", insert=_name(here, name)) for name in missing(cursor_context.entry.key.text)
            ]
        case "key":
            return list(_keys(here))
        case "value":
            setting = cursor_context.setting(vocabulary)
            return list(_values(here, setting)) if setting else []
    return []


def _kinds(here: _At) -> Iterator[CompletionItem]:
    written = here.cursor_context.entry is not None and (
        here.cursor_context.entry.value is not None or here.cursor_context.entry.body is not None
    )
    for kind, settings in here.vocabulary.kinds.items():
        snippet = None if written else block_snippet(kind, settings, here.words)
        yield here.item(kind, "kind", detail="block", doc=markdown.of_kind(kind), snippet=snippet)


def block_snippet(kind: str, settings: Settings, words: Words) -> str:
    """Snippet of a new block with its first settings. `words` returns the choices of a setting."""
    first = [settings[name] for name in FIRST.get(kind, ()) if name in settings] or [
        setting for setting in settings.values() if setting.required and setting.type != "group"
    ]
    return f"{kind} ${{1:name}} {_body(first, words, 2)}"


def _body(settings: Sequence[Setting], words: Words, count: int) -> str:
    """Settings in braces, with a placeholder for each value; placeholders are numbered from `count`."""
    width = max((len(setting.name) for setting in settings), default=0)
    lines = [f"    {one.name:<{width}} {_field(one, words, at)}\n" for at, one in enumerate(settings, start=count)]
    return f"{{\n{''.join(lines)}    $0\n}}"


def _field(setting: Setting, words: Words, count: int) -> str:
    """Placeholder for the value of a setting; quotes are outside the placeholder."""
    known = words(setting)
    if len(known) > 1:
        first = [word for word in known if word == setting.default]
        return f"${{{count}|{','.join(dict.fromkeys([*first, *known]))}|}}"
    value = known[0] if known else example(setting).removeprefix(write_name(setting.name)).strip()
    if value.startswith('"') and value.endswith('"') and len(value) > 1:
        return f'"${{{count}:{_escaped(value[1:-1]).replace("…", "")}}}"'
    return f"${{{count}:{_escaped(value)}}}"


def _escaped(text: str) -> str:
    return re.sub(r"[\\$}]", r"\\\g<0>", text)


def _keys(here: _At) -> Iterator[CompletionItem]:
    cursor_context = here.cursor_context
    settings = cursor_context.settings(here.vocabulary)
    given = (
        {entry.key.content for entry in cursor_context.body.entries if entry is not cursor_context.entry}
        if cursor_context.body
        else set()
    )
    excluded = {name for key in given if key in settings for name in settings[key].excludes}
    wanted = [settings[key].needs_one for key in given if key in settings]
    missing = {name for names in wanted if given.isdisjoint(names) for name in names}
    alone = cursor_context.entry is None or (cursor_context.entry.value is None and cursor_context.entry.body is None)
    for count, setting in enumerate(settings.values()):
        name, again = setting.name, setting.repeats
        if (name in given and not again) or name in excluded or given & set(setting.excludes):
            continue
        first = setting.required or name in missing or (len(setting.one_of) > 1 and not given & set(setting.one_of))
        yield here.item(
            name,
            "group" if setting.type in _BODIES else "setting",
            insert=name,
            snippet=setting_snippet(setting, here.words) if alone else None,
            detail=markdown.type_of(setting) + (", required" if setting.required else ""),
            doc=markdown.of_setting(setting),
            rank=count if first else count + 100,
        )


def setting_snippet(setting: Setting, words: Words) -> str:
    """Snippet of a setting with a placeholder for its value."""
    if setting.type == "map":
        return f'{setting.name} {{\n    ${{1:{_escaped(_KEYS.get(setting.keys or "", "NAME"))}}} "$2"\n    $0\n}}'
    if setting.type == "group":
        head = f"{setting.name} ${{1:name}}" if setting.named else setting.name
        return f"{head} {_body(needed_settings(setting.settings) or setting.settings[:1], words, 1 + setting.named)}"
    if setting.type == "secret":
        return f'{setting.name} "secret://$1"'
    if setting.many and not setting.single:
        return f"{setting.name} [$1]"
    return f"{setting.name} {_field(setting, words, 1)}"


def _values(here: _At, setting: Setting) -> Iterator[CompletionItem]:
    cursor_context = here.cursor_context
    if setting.many and not setting.single and cursor_context.items is None:
        return  # a list is required: its brackets come first
    taken = {item.content for item in cursor_context.items or () if item is not cursor_context.token}
    for item in _READERS.get(setting.type, _plain)(here, setting):
        if item.label not in taken:
            yield item


def _truths(here: _At, setting: Setting) -> Iterator[CompletionItem]:
    for word in () if here.cursor_context.inside else ("true", "false"):
        usual = setting.default is (word == "true")
        yield here.item(word, "choice", detail="default" if usual else "", rank=int(usual))


def _choices(here: _At, setting: Setting) -> Iterator[CompletionItem]:
    for rank, choice in enumerate(setting.choices or ()):
        usual = choice == setting.default
        yield here.item(
            choice, "choice", detail="default" if usual else "", doc=markdown.of_setting(setting), rank=rank
        )


def _rows(here: _At, setting: Setting) -> Iterator[CompletionItem]:
    entry = here.cursor_context.entry
    for rank, row in enumerate(here.vocabulary.rows(setting.family or "").values()):
        bare = setting.type == "variant" and not here.cursor_context.inside and entry is not None and entry.body is None
        yield here.item(
            row.name,
            "row",
            insert=_name(here, row.name),
            snippet=_row_snippet(here, row) if bare else None,
            detail=row.title + (" (default)" if row.name == setting.default else ""),
            doc=markdown.of_row(row),
            rank=rank,
        )


def _row_snippet(here: _At, row: CatalogEntry) -> str | None:
    required = [option for option in row.options if option.required]
    return f"{_name(here, row.name)} {_body(required, here.words, 1)}" if required else None


def _rows_and_blocks(here: _At, setting: Setting) -> Iterator[CompletionItem]:
    entry = here.cursor_context.entry
    if setting.block is not None and (entry is None or entry.body is None):  # a block has no options here
        yield from _references(here, setting)
    yield from _rows(here, setting)


def _references(here: _At, setting: Setting) -> Iterator[CompletionItem]:
    for name in sorted(here.declared(setting.block or "")):
        yield here.item(name, "name", insert=_name(here, name), detail=setting.block or "")


def _names(here: _At, setting: Setting) -> Iterator[CompletionItem]:
    return _rows(here, setting) if setting.family else iter(())


def _tools(here: _At, setting: Setting) -> Iterator[CompletionItem]:
    """Tools, and a pattern for those of each server that a block declares."""
    yield from _rows(here, setting)
    last = len(here.vocabulary.rows(setting.family or ""))
    for name in sorted(here.declared("mcp")):
        pattern = f"{name}.*"
        yield here.item(pattern, "name", insert=_name(here, pattern), detail="mcp", rank=last)


def _name(here: _At, name: str) -> str:
    """Name as it is written here: quoted if required, unless the cursor is inside quotes already."""
    return name if here.cursor_context.inside else write_name(name)


def _secrets(here: _At, _: Setting) -> Iterator[CompletionItem]:
    token = here.cursor_context.token
    begun = _BEGUN.match(token.content) if token and here.cursor_context.inside else None
    if begun is not None:  # the text after the backend is not replaced
        here = replace(here, end=max(here.start + begun.end(), min(here.index, here.end)))
    for rank, row in enumerate(here.vocabulary.rows("secret").values()):
        start = f"secret://{row.name}/"
        yield here.item(
            start,
            "row",
            insert=start if here.cursor_context.inside else f'"{start}"',
            snippet=None if here.cursor_context.inside else f'"{start}$1"',
            detail=row.title,
            doc=markdown.of_row(row),
            rank=rank,
        )


def _amounts(*usual: str) -> Callable[[_At, Setting], Iterator[CompletionItem]]:
    def items(here: _At, setting: Setting) -> Iterator[CompletionItem]:
        low, high = setting.minimum, setting.maximum
        known = [str(value) for value in (setting.default, setting.example, low, high) if value not in (None, [])]
        for rank, value in enumerate(dict.fromkeys([*known, *(() if low or high else usual)])):
            detail = "default" if value == setting.default else "example"
            yield here.item(value, "value", detail=detail, rank=rank)

    return items


def _plain(here: _At, setting: Setting) -> Iterator[CompletionItem]:
    """Default of the setting, and an example of its type."""
    if here.cursor_context.inside or setting.type in _BODIES:
        return
    found = {}
    if setting.default not in (None, "", []) and not isinstance(setting.default, list):
        found[write_default(setting)] = "default"
    found.setdefault(example(setting).removeprefix(write_name(setting.name)).strip(), "example")
    for rank, (value, detail) in enumerate(found.items()):
        if "…" not in value:
            yield here.item(value, "value", detail=detail, rank=rank)


_READERS: Mapping[str, Callable[[_At, Setting], Iterator[CompletionItem]]] = {
    "boolean": _truths,
    "word": _choices,
    "variant": _rows_and_blocks,
    "name": _names,
    "tool": _tools,
    "reference": _references,
    "secret": _secrets,
    "header_value": _secrets,
    "env_value": _secrets,
    "duration": _amounts(*_DURATIONS),
    "size": _amounts(*_SIZES),
}

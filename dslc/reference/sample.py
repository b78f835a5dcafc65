"""Example programs around one setting, for the reference; they compile without warnings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from dslc.catalog import CatalogEntry
from dslc.editing.format import canonical
from dslc.example import ExampleLine, line, needed_settings, row_line
from dslc.setting import Setting
from dslc.syntax.quoting import write_name
from dslc.vocabulary import Vocabulary, by_name

_REQUIRED_BY_RULE = {"webhook": ("secret", "insecure_allow_unverified")}
"""Kind → (setting required by a rule, not by its type; setting that may replace it)."""
_SENDERS = {("webhook", "event"): ("provider", "provider")}
"""(Kind, setting) → (setting that must have a row that names events, family of the row)."""


def sample(vocabulary: Vocabulary, kind: str, *given: ExampleLine) -> str:
    """Return a program with one block of `kind` that has the settings `given` and all required ones."""
    settings = tuple(vocabulary.kinds[kind].values())
    given = (*given, *_companions(vocabulary, kind, given))
    lines = complete(vocabulary, settings, given, required=_rule_settings(vocabulary, kind, given))
    blocks = [block(kind, f"my-{kind}", lines), *_named_blocks(vocabulary, settings, lines)]
    return "\n\n".join(blocks) + "\n"


def _named_blocks(vocabulary: Vocabulary, settings: Sequence[Setting], lines: Sequence[ExampleLine]) -> Iterator[str]:
    """The blocks that the lines name, with their required settings."""
    for written in lines:
        setting = by_name(settings)[written.key]
        for name in (written.value or "").strip("[]").split(", "):
            if setting.block is not None and name and vocabulary.names_block(setting, name.strip('"')):
                yield block(
                    setting.block, name, complete(vocabulary, tuple(vocabulary.kinds[setting.block].values()), ())
                )


def complete(
    vocabulary: Vocabulary, settings: Sequence[Setting], given: Sequence[ExampleLine], required: Iterable[str] = ()
) -> list[ExampleLine]:
    """Return `given` and the other required settings of the same body, in the order of `settings`."""
    known, written = by_name(settings), {each.key: each for each in given}
    wanted = [known[name] for name in (*written, *required)]
    return [
        written.get(setting.name) or line(setting, vocabulary)
        for setting in needed_settings(settings, wanted)
        if written.keys().isdisjoint(setting.excludes) or setting.name in written
    ]


def _companions(vocabulary: Vocabulary, kind: str, given: Sequence[ExampleLine]) -> Iterator[ExampleLine]:
    """Settings that a rule requires together with others: a provider that names events, for `event`."""
    keys = {each.key for each in given}
    for (of, name), (setting, family) in _SENDERS.items():
        rows = vocabulary.rows(family).values()
        row = next((row for row in rows if row.event and not row.options and "body" in (row.signed or ())), None)
        if of == kind and name in keys and setting not in keys and row is not None:
            yield row_line(vocabulary.kinds[kind][setting], row, vocabulary)


def _rule_settings(vocabulary: Vocabulary, kind: str, given: Sequence[ExampleLine]) -> list[str]:
    setting, instead = _REQUIRED_BY_RULE.get(kind, (None, None))
    if setting is None or any(each.key == instead and each.value == "true" for each in given):
        return []
    senders = [(row, each) for each in given if (row := _sender(vocabulary, each)) is not None]
    keyless = any(row.keyless or any(inner.key == row.keyless_by for inner in each.body or ()) for row, each in senders)
    address = ["public_url"] if any("url" in (row.signed or ()) for row, _ in senders) else []
    return address if keyless else [setting, *address]


def _sender(vocabulary: Vocabulary, given: ExampleLine) -> CatalogEntry | None:
    """Return the provider that a line names."""
    rows = vocabulary.rows("provider").values() if given.key == "provider" else ()
    return next((row for row in rows if given.value == write_name(row.name)), None)


def block(kind: str, name: str, lines: Sequence[ExampleLine]) -> str:
    """Return a block in canonical form, without the final line end."""
    if not lines:
        return f"{kind} {name} {{}}"
    return canonical("\n".join([f"{kind} {name} {{", *_block_lines(lines), "}"])).rstrip()


def _block_lines(lines: Sequence[ExampleLine]) -> Iterator[str]:
    for each in lines:
        head = each.key if each.value is None else f"{each.key} {each.value}"
        if each.body:
            yield from (f"{head} {{", *_block_lines(each.body), "}")
        else:
            yield each.inline()

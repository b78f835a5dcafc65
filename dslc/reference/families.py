"""Reference pages of the catalog's families, with one section for each row."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from dslc.catalog import CatalogEntry
from dslc.example import ExampleLine, line, row_line
from dslc.reference.markdown import anchor, code, listing, page, program, sentence, table
from dslc.reference.sample import complete, sample
from dslc.reference.settings import overview, sections
from dslc.reference.titles import family, family_page
from dslc.setting import Setting
from dslc.syntax.quoting import quoted
from dslc.vocabulary import Vocabulary


def families(vocabulary: Vocabulary) -> Iterator[tuple[str, str]]:
    """Yield file name and text of the page of every family that has rows."""
    for name in vocabulary.catalog.families:
        if vocabulary.rows(name):
            yield family_page(name), _page(name, vocabulary)


def _page(name: str, vocabulary: Vocabulary) -> str:
    about, rows = family(name), vocabulary.rows(name).values()
    places = [f"[{code(path)}]({kind}.md#{anchor(path)})" for kind, path in _places(name, vocabulary)]
    given = f"Used in {', '.join(places)}." if places else ""
    index = table(("name", ""), [(f"[{code(row.name)}](#{anchor(row.name)})", sentence(row.doc)) for row in rows])
    parts = [part for row in rows for part in _row(name, row, vocabulary)]
    return page(about.title, f"{about.intro} {given}".strip(), index, *parts)


def _places(name: str, vocabulary: Vocabulary) -> Iterator[tuple[str, str]]:
    """Yield kind and heading of each setting, in groups too, that accepts a row of the family."""

    def below(settings: Iterable[Setting], prefix: str) -> Iterator[str]:
        for setting in settings:
            if _takes(name, setting):
                yield f"{prefix}{setting.name}"
            yield from below(setting.settings, f"{prefix}{setting.name}.")

    for kind, settings in vocabulary.kinds.items():
        for path in below(settings.values(), ""):
            yield kind, path


def _uses(name: str, vocabulary: Vocabulary) -> list[tuple[str, Setting]]:
    """Return kind and setting of each top-level setting that accepts a row of the family."""
    found = [(kind, each) for kind, settings in vocabulary.kinds.items() for each in settings.values()]
    return [(kind, each) for kind, each in found if _takes(name, each)]


def _takes(name: str, setting: Setting) -> bool:
    return setting.type == "secret" if name == "secret" else setting.family == name


def _row(name: str, row: CatalogEntry, vocabulary: Vocabulary) -> Iterator[str]:
    yield f"## {row.name}"
    yield f"{row.title}. {row.doc}" if row.title and row.title not in row.doc else row.doc
    facts = [
        ("Signed", _signed_parts(row)),
        ("Documentation", f"<{row.doc_url}>" if row.doc_url else ""),
        ("Needs the extra", code(row.extra) if row.extra else ""),
    ]
    yield "\n".join(f"- {label}: {text}" for label, text in facts if text)
    for kind, setting in _uses(name, vocabulary)[:1]:
        yield program(sample(vocabulary, kind, *_usage(name, row, kind, setting, vocabulary)))
    if row.options:
        prefix = f"{row.name}."
        yield overview(row.options, prefix)
        yield from sections(row.options, vocabulary, 3, prefix)


def _usage(name: str, row: CatalogEntry, kind: str, setting: Setting, vocabulary: Vocabulary) -> Iterator[ExampleLine]:
    """Example lines with which a block of `kind` uses the row, with a URL path named after the row."""
    if name == "secret":
        yield _secret(row, setting)
        return
    yield _with_options(row, setting, vocabulary)
    for other in vocabulary.kinds[kind].values():
        if other.required and other.type == "url_path":
            yield ExampleLine(other.name, quoted(f"/hooks/{row.name}"))


def _signed_parts(row: CatalogEntry) -> str:
    if row.signed is None:
        return ""
    return listing(row.signed, "and") if row.signed else "nothing"


def _with_options(row: CatalogEntry, setting: Setting, vocabulary: Vocabulary) -> ExampleLine:
    """Example line of the row with all its options that do not exclude each other."""
    least = row_line(setting, row, vocabulary)
    if setting.type != "variant" or not row.options:
        return least
    together: list[Setting] = []
    for option in row.options:
        names = {each.name for each in together}
        if names.isdisjoint(option.excludes) and not any(option.name in each.excludes for each in together):
            together.append(option)
    given = [line(option, vocabulary) for option in together]
    return ExampleLine(least.key, least.value, tuple(complete(vocabulary, row.options, given)))


def _secret(row: CatalogEntry, setting: Setting) -> ExampleLine:
    """Example line with a reference in the form that the row's documentation begins with."""
    form = re.search(rf"secret://{re.escape(row.name)}/[^`\s]+", row.doc)
    return ExampleLine(setting.name, quoted(form.group() if form else f"secret://{row.name}/NAME"))

"""All pages of the reference, generated from the compiler's tables: blocks, catalog, units, codes."""

from __future__ import annotations

from dslc.reference.blocks import about, blocks
from dslc.reference.diagnostics import diagnostics
from dslc.reference.families import families
from dslc.reference.markdown import code, page, sentence, table
from dslc.reference.titles import family, family_page
from dslc.reference.values import values
from dslc.vocabulary import Vocabulary

_INTRO = """
A file is a list of blocks, `kind name { … }`. A block's body is a list of settings, `key value`, and of groups,
`key { … }`, some with a name, `key name { … }`; a variant has its own options, `key value { … }`. Key and value are on
one line, and `{` is on the line of its head. Comments begin with `#` or `//`. All files of one compilation form one
program: blocks may be in any order and in any file.
"""


def pages(vocabulary: Vocabulary) -> dict[str, str]:
    """Return all pages of the reference: file name → Markdown."""
    written = {"index.md": _index(vocabulary), **dict(blocks(vocabulary)), **dict(families(vocabulary))}
    return {**written, "values.md": values(vocabulary), "diagnostics.md": diagnostics()}


def _index(vocabulary: Vocabulary) -> str:
    kinds = [(f"[{code(kind)}]({kind}.md)", sentence(about(kind))) for kind in vocabulary.kinds]
    known = [name for name in vocabulary.catalog.families if vocabulary.rows(name)]
    rows = [
        (f"[{family(name).title}]({family_page(name)})", ", ".join(map(code, vocabulary.rows(name)))) for name in known
    ]
    more = [
        ("[Values](values.md)", "strings, numbers, durations, sizes, paths, secrets"),
        ("[Diagnostics](diagnostics.md)", "every code that the compiler reports"),
    ]
    return page(
        "Reference of the .symbiont language",
        _INTRO,
        "## Blocks",
        table(("block", ""), kinds),
        "## Providers, stores and other names",
        table(("", ""), rows),
        "## Values and diagnostics",
        table(("", ""), more),
    )

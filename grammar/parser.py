"""The parser of `symbiont.lark`.

Building an LALR parser from its grammar takes lark 20 ms, loading ready tables 2 ms, on a machine where importing lark
takes 36 ms; so the tables are generated and committed, as a Python module (`python -m grammar.parser` writes it, a test
compares it). lark's own `cache=` was not taken: it pickles into a shared temporary folder. Neither was its standalone
generator: its copy of the lark runtime saves little and hides which lark runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lark

_FOLDER = Path(__file__).parent
_OPTIONS: dict[str, Any] = {
    "parser": "lalr",
    "lexer": "basic",
    "start": ["file", "unreadable"],
    "maybe_placeholders": False,
}


def grammar_text() -> str:
    """What `symbiont.lark` says."""
    return (_FOLDER / "symbiont.lark").read_text(encoding="utf-8")


def build(**options: Any) -> lark.Lark:
    """A parser made from the grammar itself. `options` are lark's own, such as `transformer`."""
    return lark.Lark(grammar_text(), **_OPTIONS, **options)


def load(**options: Any) -> lark.Lark:
    """The same parser from the committed tables, or from the grammar when another lark than theirs is installed."""
    from grammar.tables import LARK_VERSION, TABLES

    if lark.__version__ != LARK_VERSION:
        return build(**options)
    # What lark's own standalone modules call; `Lark.load` takes only a pickle.
    loaded: lark.Lark = lark.Lark._load_from_dict(TABLES["data"], TABLES["memo"], **options)  # type: ignore[no-untyped-call]
    return loaded


def tables_text() -> str:
    """The module `grammar/tables.py` as it must stand for this grammar and this lark."""
    import hashlib
    import pprint

    data, memo = build().memo_serialize([lark.lexer.TerminalDef, lark.grammar.Rule])
    tables = pprint.pformat({"data": data, "memo": memo}, width=118, compact=True)
    digest = hashlib.sha256(grammar_text().encode()).hexdigest()
    return (
        f'"""Parse tables of symbiont.lark; `python -m grammar.parser` writes this file."""\n\n'
        f"from typing import Any\n\n"
        f'LARK_VERSION = "{lark.__version__}"\n'
        f'GRAMMAR_SHA256 = "{digest}"\n'
        f"# fmt: off\n"
        f"TABLES: dict[str, Any] = \\\n{tables}\n"
    )


if __name__ == "__main__":
    (_FOLDER / "tables.py").write_text(tables_text(), encoding="utf-8")

"""The parser of `symbiont.lark`.

Building an LALR parser from its grammar takes lark 20 ms, loading tables 2 ms, on a machine where importing lark takes
36 ms. So the tables are generated and committed (`python -m grammar.parser` writes them, a test compares them), as
JSON, which loads fast without bytecode. lark's `cache=` is not used because it pickles into a shared temporary folder;
neither is its standalone generator, whose copy of the lark runtime saves little and hides the version of lark.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lark

_FOLDER = Path(__file__).parent
TABLES = _FOLDER / "tables.json"
_OPTIONS: dict[str, Any] = {
    "parser": "lalr",
    "lexer": "basic",
    "start": ["file", "unreadable"],
    "maybe_placeholders": False,
}


def grammar_text() -> str:
    """Return the content of `symbiont.lark`."""
    return (_FOLDER / "symbiont.lark").read_text(encoding="utf-8")


def build(**options: Any) -> lark.Lark:
    """Return a parser built from the grammar. `options` are lark's own, such as `transformer`."""
    return lark.Lark(grammar_text(), **_OPTIONS, **options)


def load(**options: Any) -> lark.Lark:
    """Return the same parser from the committed tables, or from the grammar if another version of lark is installed."""
    tables = json.loads(TABLES.read_bytes(), object_hook=_with_numbers)
    if lark.__version__ != tables["lark"]:
        return build(**options)
    # As in lark's standalone modules; `Lark.load` accepts only a pickle.
    loaded: lark.Lark = lark.Lark._load_from_dict(tables["data"], tables["memo"], **options)  # type: ignore[no-untyped-call]
    return loaded


def _with_numbers(table: dict[str, Any]) -> dict[Any, Any]:
    """Convert numeric keys back to int: lark numbers states, tokens and rules, but JSON keys are strings."""
    if next(iter(table), "").isdigit():
        return {int(key): value for key, value in table.items()}
    return table


def write_tables() -> None:
    """Write `grammar/tables.json`, unless it is of this grammar and this version of lark: lark numbers the states in
    another order each time."""
    import hashlib

    digest = hashlib.sha256(grammar_text().encode()).hexdigest()
    current = json.loads(TABLES.read_bytes()) if TABLES.exists() else {}
    if (current.get("lark"), current.get("grammar_sha256")) == (lark.__version__, digest):
        return
    data, memo = build().memo_serialize([lark.lexer.TerminalDef, lark.grammar.Rule])
    tables = {"lark": lark.__version__, "grammar_sha256": digest, "data": data, "memo": memo}
    TABLES.write_text(json.dumps(tables, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_tables()

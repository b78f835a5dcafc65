"""The tree-sitter language of Symbiont, for editors.

Its parser is C, generated from `grammar.js` and compiled when the package is installed. If that failed, only this
module is unavailable; the compiler does not need it.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path

from tree_sitter import Language, Parser, Query, Tree

QUERIES = ("highlights", "folds", "indents", "locals")
_QUERIES = Path(__file__).parent / "queries"


class LanguageNotBuilt(ImportError):  # noqa: N818
    """The compiled parser is missing."""


@cache
def language() -> Language:
    """Return the language. Raises LanguageNotBuilt, with instructions, if its parser was not compiled."""
    try:
        built = import_module("grammar._tree_sitter")
    except ImportError as error:
        raise LanguageNotBuilt(
            f"the tree-sitter parser of Symbiont was not built: {error}. It is compiled when the package is installed: "
            "install a C compiler (gcc or clang), then the package again from its checkout "
            "(`pip install --force-reinstall --no-cache-dir --editable .`)"
        ) from error
    return Language(built.language())


def parse(source: str | bytes) -> Tree:
    """Return the tree of a text; bytes are UTF-8. The tree of a text with errors has ERROR and MISSING nodes."""
    return Parser(language()).parse(source.encode("utf-8", "surrogatepass") if isinstance(source, str) else source)


def query(name: str) -> Query:
    """Return one of `QUERIES`, as editors use it."""
    return Query(language(), (_QUERIES / f"{name}.scm").read_text(encoding="utf-8"))

"""The tree-sitter language of Symbiont: what editors read.

Its parser is C, generated from `grammar.js` and compiled when the package is installed. Where that could not be done,
the compiler and everything else work all the same; only what is here says so.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path

from tree_sitter import Language, Parser, Query, Tree

QUERIES = ("highlights", "folds", "indents", "locals")
_QUERIES = Path(__file__).parent / "queries"


class LanguageNotBuilt(ImportError):  # noqa: N818 - what is, not that it is an error
    """The C part of this package is not there."""


@cache
def language() -> Language:
    """The language. Raises LanguageNotBuilt, and says what to do, when its parser was not compiled."""
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
    """The tree of a text; bytes are UTF-8. A tree of a text with mistakes has ERROR and MISSING nodes."""
    return Parser(language()).parse(source.encode("utf-8", "surrogatepass") if isinstance(source, str) else source)


def query(name: str) -> Query:
    """One of `QUERIES`, as the editors take it."""
    return Query(language(), (_QUERIES / f"{name}.scm").read_text(encoding="utf-8"))

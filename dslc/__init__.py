"""The compiler of the .symbiont language.

`compile(sources, catalog)` is the whole of it for other code. It loads on first use, so that what only needs
`dslc.blocks` or `dslc.program` does not pay for the compiler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dslc.catalog import Catalog as Catalog
    from dslc.compiler import compile as compile  # noqa: A004
    from dslc.diagnostic import Diagnostic as Diagnostic
    from dslc.program import Program as Program
    from dslc.source import Source as Source

_HOMES = {
    "Catalog": "dslc.catalog",
    "Diagnostic": "dslc.diagnostic",
    "Program": "dslc.program",
    "Source": "dslc.source",
    "compile": "dslc.compiler",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)

"""Checksums of the files that `tree-sitter generate` reads and writes.

The generated files are committed, so that a build does not need the generator. A test compares the checksums; `make
grammar` writes files and checksums.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

_FOLDER = Path(__file__).parent
SUMS = _FOLDER / "src" / "SHA256SUMS"
_FILES = ("grammar.js", "tree-sitter.json", "src/grammar.json", "src/node-types.json", "src/parser.c")


def sums() -> str:
    """Return the checksums in the form of `sha256sum`."""
    return "".join(f"{hashlib.sha256((_FOLDER / name).read_bytes()).hexdigest()}  {name}\n" for name in _FILES)


if __name__ == "__main__":
    SUMS.write_text(sums(), encoding="utf-8")

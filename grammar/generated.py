"""What `tree-sitter generate` made of grammar.js is committed, so that nobody needs the generator to build.

The sums of what it read and wrote stand beside it; a test compares them. `make grammar` writes all of it.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

_FOLDER = Path(__file__).parent
SUMS = _FOLDER / "src" / "SHA256SUMS"
_FILES = ("grammar.js", "tree-sitter.json", "src/grammar.json", "src/node-types.json", "src/parser.c")


def sums() -> str:
    """The sums as they must stand, in the form of `sha256sum`."""
    return "".join(f"{hashlib.sha256((_FOLDER / name).read_bytes()).hexdigest()}  {name}\n" for name in _FILES)


if __name__ == "__main__":
    SUMS.write_text(sums(), encoding="utf-8")

"""The page's description of a collection's rows agrees with the tables."""

from __future__ import annotations

import re
from pathlib import Path

from runtime.database.schema import items
from runtime.database.sealed import Sealed
from runtime.memory.collection.store import BATCH, LONGEST_NAME

PAGE = (Path(__file__).parents[3] / "docs/collections.md").read_text()
SECTION = PAGE[PAGE.index("## The store") :]


def test_every_column_is_said_to_be_encrypted_or_unencrypted() -> None:
    rows = re.findall(r"^\| (`[^|]*`) \| (unencrypted|encrypted)", SECTION, re.MULTILINE)
    said = {name: kind for names, kind in rows for name in re.findall(r"`(\w+)`", names)}
    kept = {column.name: "encrypted" if isinstance(column.type, Sealed) else "unencrypted" for column in items.columns}
    assert said == kept


def test_the_sizes_are_those_of_the_store() -> None:
    assert f"at most {BATCH} items" in SECTION
    assert f"at most {LONGEST_NAME} characters" in SECTION

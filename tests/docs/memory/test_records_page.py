"""The page about records agrees with the store."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from runtime.memory.records.files.evidence import ERROR, LOCAL, REMOTE
from runtime.memory.records.files.record import UNSIGNED, decode, name_of
from runtime.memory.records.gates import GATES

PAGE = (Path(__file__).parents[3] / "docs" / "records.md").read_text(encoding="utf-8")


def _shown() -> str:
    found = re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_record_that_is_shown_is_one() -> None:
    fields = json.loads(_shown())
    name = f"20260117_181512_{fields['id']}.json"
    record = decode(name, fields["agent_id"], _shown().encode())
    assert name_of(record.item) == name


def test_the_checksum_is_computed_as_the_page_says() -> None:
    fields = json.loads(_shown())
    formula = re.search(r"```python\n(.*?)\n```", PAGE, re.DOTALL)
    assert formula is not None
    record = {key: value for key, value in fields.items() if key not in UNSIGNED}
    told = eval(formula[1], {"hashlib": hashlib, "json": json, "record": record})
    assert fields["checksum"] == f"sha256:{told}"
    assert all(f"`{name}`" in PAGE for name in UNSIGNED)


def test_every_gate_and_every_event_is_on_the_page() -> None:
    assert all(f"| `{gate}` |" in PAGE for gate in GATES)
    assert all(f"_{event}.json`" in PAGE for event in (LOCAL, REMOTE, ERROR))

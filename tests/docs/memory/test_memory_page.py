"""The page about memories in files agrees with the store."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import msgspec
import pytest

from runtime.memory.item import Item
from runtime.memory.markdown import promoted
from runtime.memory.markdown.store import MarkdownStore
from runtime.memory.markdown.text.annotation import Annotation, Origin
from runtime.memory.markdown.text.document import MarkdownDocument
from runtime.memory.redaction.redact import redact
from runtime.memory.store_types import Scan
from tests.clocks import ManualClock

PAGE = (Path(__file__).parents[3] / "docs" / "memory.md").read_text(encoding="utf-8")
MEMORY, LOG = re.findall(r"```markdown\n(.*?)```", PAGE, re.DOTALL)


async def read(root: Path, clock: ManualClock) -> list[Item]:
    store = MarkdownStore(root, clock)
    found = [one async for one in store.scan(Scan(agent_id="reviewer"))]
    await store.close()
    return found


async def test_the_files_that_are_shown_are_read_as_the_page_says(tmp_path: Path, clock: ManualClock) -> None:
    (tmp_path / "reviewer" / "logs").mkdir(parents=True)
    (tmp_path / "reviewer" / "memory.md").write_text(MEMORY)
    (tmp_path / "reviewer" / "logs" / "2026-02-14.md").write_text(LOG)
    found = await read(tmp_path, clock)
    assert [one.memory_type for one in found] == ["semantic", "semantic", "procedural", "semantic", *["episodic"] * 2]
    assert found[1].tags == ("api",)
    store = MarkdownStore(tmp_path, clock)
    await store.compact("reviewer", older_than=date(2026, 2, 14))
    await store.close()
    assert "The staging database is read-only" in [one.text for one in await read(tmp_path, clock)]


def test_every_key_of_an_annotation_is_on_the_page() -> None:
    names = [field.name for kind in (Annotation, Origin) for field in msgspec.structs.fields(kind)]
    assert all(f"`{name}`" in PAGE for name in names)


def test_what_was_taken_over_is_said_as_the_page_shows_it() -> None:
    (block,) = re.findall(r"```\n(<!-- symbi flushed\n.*?)```", PAGE, re.DOTALL)
    keys = promoted.read(MarkdownDocument.parse(block.encode()))
    assert promoted.write(MarkdownDocument.parse(b""), keys).data.decode() == block


@pytest.mark.parametrize(
    ("said", "goes"),
    [
        ("password: required", False),
        ("password: hunter2", True),
        ("the password is opensesame", False),
        ("password=opensesame", True),
        ("api_key=<your key>", False),
        ("token=expired", False),
        ("pk_live_4eC39HqLyjWDarjtT1zdp7dc", False),
    ],
)
def test_what_the_page_says_of_secrets_is_so(said: str, goes: bool) -> None:
    assert ("REDACTED" in redact(said)) is goes

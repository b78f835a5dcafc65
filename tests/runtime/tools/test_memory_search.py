"""What a search tells whom."""

from __future__ import annotations

from pathlib import Path

from dslc.blocks import Choice, Memory
from runtime.identity import OWNER_CALLER, Caller
from tests.runtime.tools.test_memory_transfer import call, opened

OLLAMA = Choice(name="ollama", options={"url": "http://127.0.0.1:1"})


async def test_why_there_are_no_vectors_is_told_to_an_administrator_and_to_nobody_else(tmp_path: Path) -> None:
    async with opened(tmp_path, Memory(name="notes", path="notes", embedding=OLLAMA)) as house:
        bob = Caller("bob", frozenset({"write"}))
        await call(house, "memory_write", bob, agent="reviewer", text="The walnut")
        (note,) = (await call(house, "memory_search", bob, agent="reviewer", query="walnut"))["notes"]
        assert note == "searched by keyword only"
        (note,) = (await call(house, "memory_search", OWNER_CALLER, agent="reviewer", query="walnut"))["notes"]
        assert "127.0.0.1:1" in note

"""The results of a search for different callers."""

from __future__ import annotations

from pathlib import Path

from dslc.blocks.memory import Memory
from dslc.blocks.variant import Variant
from runtime.identity.caller import OWNER_CALLER, Caller
from tests.runtime.tools.memory.test_transfer import call, opened

OLLAMA = Variant(name="ollama", options={"url": "http://127.0.0.1:1"})


async def test_hits_of_several_memories_stand_by_how_relevant_they_are(tmp_path: Path) -> None:
    notes, other = (Memory(name=name, path=name) for name in ("notes", "other"))
    async with opened(tmp_path, notes, other) as app:
        said = {
            "notes": ["Backups are compressed with gzip today.", "We use zstd level 19 for cold archives and backups."],
            "other": ["My bicycle has a flat tyre for days.", "The cafeteria closes at four."],
        }
        for memory, texts in said.items():
            for text in texts:
                await call(app, "memory_write", OWNER_CALLER, agent="reviewer", text=text, memory=memory)
        asked = {"agent": "reviewer", "query": "which gzip compression for backups or a bicycle"}
        every = (await call(app, "memory_search", OWNER_CALLER, **asked))["hits"]
        (best, *_) = [hit for hit in every if hit["item"]["memory"] == "other"]
        # The best hits of the memories have the same score but not the same relevance.
        assert best["score"] == every[0]["score"] == 1.0
        assert [hit["item"]["memory"] for hit in every[:3]] == ["notes", "notes", "other"]
        for memory in said:
            scores = [hit["score"] for hit in every if hit["item"]["memory"] == memory]
            assert scores == sorted(scores, reverse=True)
        for name in ("score_threshold", "scoreThreshold"):
            answer = await call(app, "memory_search", OWNER_CALLER, **asked, **{name: every[0]["relevance"]})
            assert answer["hits"] == [hit for hit in every if hit["relevance"] >= every[0]["relevance"]]


async def test_why_there_are_no_vectors_is_told_to_an_administrator_and_to_nobody_else(tmp_path: Path) -> None:
    async with opened(tmp_path, Memory(name="notes", path="notes", embedding=OLLAMA)) as app:
        bob = Caller("bob", frozenset({"write"}))
        await call(app, "memory_write", bob, agent="reviewer", text="The walnut")
        (note,) = (await call(app, "memory_search", bob, agent="reviewer", query="walnut"))["notes"]
        assert note == "searched by keyword only"
        (note,) = (await call(app, "memory_search", OWNER_CALLER, agent="reviewer", query="walnut"))["notes"]
        assert "127.0.0.1:1" in note


async def test_a_source_with_a_secret_finds_what_is_from_there(tmp_path: Path) -> None:
    kinds = [Variant(name=name) for name in ("markdown", "records", "collection")]
    hashing = Variant(name="hashing")
    memories = [Memory(name=kind.name, store=kind, embedding=hashing) for kind in kinds]
    async with opened(tmp_path, *memories) as app:
        secret = "https://user:hunter2secret@example.com/a"
        for memory in memories:
            to = {"agent": "reviewer", "memory": memory.name}
            await call(app, "memory_write", OWNER_CALLER, **to, text="The walnut", source_uri=secret)
            for source, count in ((secret, 1), ("https://user@example.com/a", 0)):
                answer = await call(app, "memory_search", OWNER_CALLER, **to, query="walnut", source=source)
                assert len(answer["hits"]) == count
                assert "hunter2secret" not in str(answer)

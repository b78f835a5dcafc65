"""The file of a record: its fields, its name, its checksum, and the handling of a damaged file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from runtime.memory.item import Item, Provenance
from runtime.memory.records.files.record import (
    DamagedRecord,
    checksum_of,
    decode,
    encode,
    fields_of,
    name_of,
    read_name,
)
from runtime.memory.records.store import RecordsStore
from tests.lanes import examples
from tests.runtime.memory.records.pieces import events, everything, only_record, read_json, record_files
from tests.runtime.memory.texts import WHEN, fact, item, items

ID = "550e8400-e29b-41d4-a716-446655440000"
DESIGN = {
    "id": ID,
    "type": "pattern",
    "summary": "Successfully completed: Add unit tests for user service",
    "sources": ["agent_runtime/evidence/20260117_181512_b069d8ca_audit_complete.json"],
    "date": "2026-01-17T18:15:12.801505",
    "tags": ["testing", "unit", "agent-runtime"],
    "task": "Add unit tests for user service",
    "confidence": 0.95,
    "session_id": "b069d8ca",
    "risk_tier": "GREEN",
    "git_commit": "a109d56",
    "checksum": "",
    "store_location": "local",
    "remote_store_attempted": False,
    "remote_store_error": "not_configured",
}
"""The example of the format, without its checksum."""


def full() -> Item:
    """An item with all its fields."""
    about = Provenance(
        author="Ada",
        session_id="b069d8ca",
        task="Add unit tests for user service",
        confidence=0.95,
        risk_tier="GREEN",
        git_commit="a109d56",
        sources=("/evidence/one.json",),
    )
    return fact(
        "Successfully completed", tags=("pattern", "testing"), project_id="p", user_id="u", provenance=about,
        source_uri="https://example.com/1", source_memory_ids=("x", "y"),
    )  # fmt: skip


async def test_a_record_has_every_field_of_the_design_and_of_the_universal_payload(
    store: RecordsStore, folder: Path
) -> None:
    (written,) = await store.append([full()])
    found = only_record(folder)
    assert list(found)[:15] == list(DESIGN)
    assert {name: found[name] for name in DESIGN if name not in {"id", "checksum"}} == {
        "type": "pattern",
        "summary": "Successfully completed",
        "sources": ["/evidence/one.json"],
        "date": "2026-02-14T10:30:07.250000Z",
        "tags": ["pattern", "testing"],
        "task": "Add unit tests for user service",
        "confidence": 0.95,
        "session_id": "b069d8ca",
        "risk_tier": "GREEN",
        "git_commit": "a109d56",
        "store_location": "local",
        "remote_store_attempted": False,
        "remote_store_error": "not_configured",
    }
    assert set(found) - set(DESIGN) == {
        "author", "gates", "project_id", "agent_id", "user_id", "memory_type", "source_uri", "chunk_hash",
        "source_memory_ids",
    }  # fmt: skip
    assert found["id"] == written.memory_id
    assert await everything(store) == [written]


async def test_what_is_not_known_is_null(store: RecordsStore, folder: Path) -> None:
    await store.append([fact()])
    found = only_record(folder)
    unknown = ("task", "confidence", "session_id", "risk_tier", "git_commit", "author", "project_id", "source_uri")
    assert {name: found[name] for name in unknown} == dict.fromkeys(unknown)


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (fact(tags=("pattern",)), "pattern"),
        (fact(), "fact"),
        (item("Do it so", "procedural", tags=("pattern",)), "procedure"),
        (item(tags=("pattern",)), "episode"),
    ],
)
async def test_the_type_is_a_persons_word_for_it(one: Item, expected: str, store: RecordsStore, folder: Path) -> None:
    await store.append([one])
    assert only_record(folder)["type"] == expected


async def test_a_record_is_called_by_its_time_and_its_id(store: RecordsStore, folder: Path) -> None:
    (written,) = await store.append([fact()])
    (file,) = record_files(folder)
    assert file.name == f"20260214_103007_{written.memory_id}.json"


async def test_folders_and_files_are_the_owners_alone(store: RecordsStore, folder: Path) -> None:
    await store.append([fact()])
    for path in (folder, *folder.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


async def test_the_checksum_is_of_the_canonical_json_of_all_but_itself_and_the_status(
    store: RecordsStore, folder: Path
) -> None:
    await store.append([fact("Prefers — dark 日本")])
    found = only_record(folder)
    status = {"checksum", "store_location", "remote_store_attempted", "remote_store_error"}
    signed = {key: value for key, value in found.items() if key not in status}
    text = json.dumps(signed, sort_keys=True, separators=(",", ":"))
    assert found["checksum"] == f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


@settings(max_examples=examples(150), deadline=None)
@given(one=items())
def test_any_item_is_a_record_that_says_all_of_it(one: Item) -> None:
    known = one.with_fields(memory_id=ID)
    data = encode(fields_of(known, {"governance": "na:read-only"}, remote=True))
    assert decode(name_of(known), one.agent_id, data).item == known


def written(**changes: object) -> bytes:
    """Return a valid record that was changed in these fields, with the right checksum for them."""
    fields = fields_of(full().with_fields(memory_id=ID), {}, remote=False) | changes
    return encode(fields | {"checksum": checksum_of(fields)})


NAME = name_of(full().with_fields(memory_id=ID))


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda data: data.replace(b"Successfully", b"Unsuccessful"), "checksum"),
        (lambda data: data.replace(b'"confidence": 0.95', b'"confidence": 0.96'), "checksum"),
        (lambda data: data.replace(b'"gates": {}', b'"gates": {"governance": "done:x"}'), "checksum"),
        (lambda data: data.replace(b"{\n", b'{\n  "extra": 1,\n', 1), "checksum"),
        (lambda data: data.replace(b"{\n", b'{\n  "summary": "Other",\n', 1), "not JSON"),
        (lambda data: data[: len(data) // 2], "incomplete"),
        (lambda data: b"", "empty"),
        (lambda data: bytes(len(data)), "empty"),
        (lambda data: data + b"x", "incomplete"),
        (lambda data: data.replace(b"Success", b"\xff\xfe", 1), "incomplete"),
        (lambda data: b"[1]", "not a JSON object"),
        (lambda data: b"[" * 100_000, "incomplete"),
        (lambda data: data.replace(b"0.95", b"NaN"), "not JSON"),
        (lambda data: data.replace(b"0.95", b"1e999"), "checksum"),
        (lambda data: written(id=None), "no id"),
        (lambda data: written(id=""), "no id"),
        (lambda data: written(id=ID.replace("5", "6")), "not the one in its name"),
        (lambda data: written(checksum=None).replace(b'"checksum": "', b'"sum": "'), "no checksum"),
        (lambda data: written(agent_id="other"), "another agent"),
        (lambda data: written(summary=7), "cannot read its fields"),
        (lambda data: written(memory_type="working"), "cannot read its fields"),
        (lambda data: written(confidence=7), "cannot read its fields"),
        (lambda data: written(chunk_hash="0" * 64), "cannot read its fields"),
        (lambda data: written(date="yesterday"), "cannot read its fields"),
        (lambda data: written(date="2026-02-15T10:30:07Z"), "date"),
    ],
)
def test_a_record_that_is_not_as_it_was_written_is_damaged_and_says_why(
    damage: Callable[[bytes], bytes], why: str
) -> None:
    good = written()
    assert decode(NAME, "reviewer", good).item == full().with_fields(memory_id=ID)
    with pytest.raises(DamagedRecord, match=why) as caught:
        decode(NAME, "reviewer", damage(good))
    assert "Successfully" not in str(caught.value)


@pytest.mark.parametrize(
    "name",
    ["index.json", "STATE.json", f"20260214_103007_{ID}.json~1", f"20260214_103007_{ID}", f"20261314_103007_{ID}.json",
     f"20260214_103007_{ID.upper()}.json", "20260214_103007_b069d8ca.json"],
)  # fmt: skip
def test_another_file_is_no_record(name: str) -> None:
    assert read_name(name) is None


async def test_the_designs_own_records_are_read(store: RecordsStore, folder: Path) -> None:
    folder.mkdir(parents=True)
    fields = DESIGN | {"checksum": checksum_of(DESIGN)}
    (folder / f"20260117_181512_{ID}.json").write_bytes(encode(fields))
    (found,) = await everything(store)
    assert found.timestamp == datetime(2026, 1, 17, 18, 15, 12, 801505, tzinfo=UTC)
    assert (found.memory_id, found.memory_type, found.text) == (ID, "semantic", DESIGN["summary"])
    assert found.provenance.risk_tier == "GREEN"
    assert await store.verify() == (1, ())


async def test_fields_of_a_later_version_are_kept_when_the_status_is_written(store: RecordsStore, folder: Path) -> None:
    from runtime.memory.records.files.outbox import note_of
    from runtime.memory.records.operations import Mark

    await store.append([fact()])
    (file,) = record_files(folder)
    later: dict[str, Any] = read_json(file) | {"mood": {"good": [1, 2.5, None]}}
    file.write_bytes(encode(later | {"checksum": checksum_of(later)}))
    note = note_of(store._clock, "reviewer", file.name)
    await store._mark(Mark(note, sent=True, error=None, done=True, facts={"remote": "test"}))
    found = read_json(file)
    assert found["mood"] == {"good": [1, 2.5, None]}
    assert (found["store_location"], found["remote_store_attempted"], found["remote_store_error"]) == (
        "local+remote", True, None,
    )  # fmt: skip
    assert await store.verify() == (1, ())
    assert events(folder) == ["memory_store_local", "memory_store_remote"]


def test_a_time_before_christ_is_none_but_the_first_year_is() -> None:
    early = fact(timestamp=datetime.min.replace(tzinfo=UTC)).with_fields(memory_id=ID)
    assert name_of(early).startswith("00010101_000000_")
    assert decode(name_of(early), "reviewer", encode(fields_of(early, {}, remote=False))).item == early
    assert read_name(name_of(early)) is not None
    assert early.timestamp < WHEN

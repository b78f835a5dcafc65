"""A records memory on a failing disk: the cases for `tests.runtime.memory.faults`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path

from runtime.memory.item import Item, delivery_uri
from runtime.memory.records import writer as cabinets
from runtime.memory.records.files.record import read_name
from runtime.memory.records.operations import Cleanup, Forget, Mark, Write, WriteRequest
from runtime.memory.records.reader import RecordReader
from runtime.memory.records.writer import RecordWriter
from runtime.memory.store_types import Scan
from tests.clocks import ManualClock
from tests.runtime.memory.faults import Case, Outcome, no_leftovers
from tests.runtime.memory.texts import WHEN, fact, item

AGENT = "reviewer"
NEW = (
    fact("Learned", source_uri=delivery_uri("new", "fact"), tags=("x",)),
    item("New\n- one", source_uri=delivery_uri("new")),
    item("Yesterday", source_uri=delivery_uri("older"), timestamp=WHEN - timedelta(days=1)),
)


def perform(root: Path, *operations: WriteRequest) -> None:
    """Do this work as a freshly started process does."""
    reader = RecordReader(root)
    for outcome in RecordWriter(root, AGENT, ManualClock(), reader.name_index(AGENT)).perform(operations).outcomes:
        if isinstance(outcome, Exception):
            raise outcome


def keep(items: tuple[Item, ...], *, remote: bool) -> Write:
    return Write(items, tuple({"governance": "na:x"} for _ in items), remote)


def nothing(_: Path) -> None:
    """Begin with an empty disk."""


def begin(root: Path) -> None:
    """Write a few records, one of them waiting to be sent."""
    perform(root, keep((fact("Old", source_uri=delivery_uri("old")), item("Older")), remote=False))
    perform(root, keep((fact("Waits", source_uri=delivery_uri("waits")),), remote=True))


def append(root: Path) -> None:
    perform(root, keep(NEW, remote=True))


def sent(root: Path) -> None:
    """Send the waiting records and record that."""
    for note in RecordReader(root).notes(AGENT):
        perform(root, Mark(note, sent=True, error=None, done=True, facts={"remote": "test"}))


def failed(root: Path) -> None:
    """Fail to send the waiting records."""
    for note in RecordReader(root).notes(AGENT):
        perform(root, Mark(note, sent=False, error="it is away", done=False, facts={"remote": "test"}))


THEIRS = (fact("Ada's", user_id="ada", tags=("x",)), item("Ada's entry", user_id="ada"))


def begin_with_ada(root: Path) -> None:
    """Add another user's records, some of them waiting to be sent; the last write is hers."""
    begin(root)
    perform(root, keep(THEIRS, remote=True))


def forget_ada(root: Path) -> None:
    perform(root, Forget("ada"))


def partly_forgotten(root: Path, _outcome: Outcome) -> None:
    """Assert that no other user's record is lost, and that no evidence of a deleted record is left."""
    found = texts(root)
    assert not Counter(_BEGUN) - Counter(found), found
    assert not Counter(found) - Counter([*_BEGUN, *texts_of(THEIRS)]), found
    assert not RecordReader(root).verify(AGENT)[1]


def forgotten(root: Path) -> None:
    """Assert that nothing of the user is left."""
    ids = {note.record for note in RecordReader(root).notes(AGENT)}
    assert len(ids) == 1, ids
    after(root, _BEGUN)
    said = b"".join(file.read_bytes() for file in (root / AGENT).rglob("*.json"))
    assert b"Ada" not in said
    assert b'"ada"' not in said


def index_is_gone(root: Path) -> None:
    begin(root)
    (root / AGENT / "index.json").unlink()


def tidy(root: Path) -> None:
    perform(root, Cleanup(recover=True))


_NEW = sorted(one.text.partition("\n")[0] for one in NEW)
_BEGUN = sorted(["Old", "Older", "Waits"])


def records(root: Path) -> list[Item]:
    reader = RecordReader(root)
    return [one for batch in reader.batches(AGENT, Scan()) for one in batch()]


def texts_of(given: Iterable[Item]) -> list[str]:
    return sorted(one.text.partition("\n")[0] for one in given)


def texts(root: Path) -> list[str]:
    return texts_of(records(root))


def between(root: Path, outcome: Outcome, before: list[str], whole: list[str]) -> None:
    """Assert that nothing is lost, damaged or there twice, and that every unsent record is queued.

    Work that fails without an end of the process is done completely or not at all.
    """
    found = texts(root)
    assert not Counter(before) - Counter(found), found
    assert not Counter(found) - Counter(whole), found
    assert outcome == "killed" or found in (before, whole), found
    problems = [problem for problem in RecordReader(root).verify(AGENT)[1] if "and is missing" not in problem.message]
    assert not problems, problems
    noted = {note.record for note in RecordReader(root).notes(AGENT)}
    for file in (root / AGENT).glob("*_*.json"):
        if read_name(file.name) is not None and json.loads(file.read_bytes())["remote_store_error"] == "pending":
            assert file.name in noted, file


def after(root: Path, whole: list[str]) -> None:
    """Assert that exactly the records are there, once, with their evidence, their queue and an index."""
    tidy(root)
    between(root, "done", whole, whole)
    assert RecordReader(root).verify(AGENT)[1] == []
    folder, ids = root / AGENT, {one.memory_id for one in records(root)}
    proved = [file.name.split("_")[2] for file in (folder / "evidence").glob("*_memory_store_local.json")]
    assert sorted(proved) == sorted(ids), proved
    index = json.loads((folder / "index.json").read_bytes())
    assert index["memory_count"] == len(ids)
    there = {file.name for file in folder.iterdir()}
    assert {note.record for note in RecordReader(root).notes(AGENT)} <= there
    no_leftovers(root)


def appended(name: str, prepare: Callable[[Path], None], before: list[str]) -> Case:
    """Return a case that appends; a refused append stores nothing."""
    everything = sorted([*before, *_NEW])

    def holds(root: Path, outcome: Outcome) -> None:
        between(root, outcome, before, everything)
        assert outcome != "refused" or texts(root) == before, "what was refused is there"

    return Case(name, prepare, append, holds, lambda root: after(root, everything))


def kept(name: str, prepare: Callable[[Path], None], act: Callable[[Path], None]) -> Case:
    """Return a case that leaves the items unchanged."""

    def holds(root: Path, outcome: Outcome) -> None:
        between(root, outcome, _BEGUN, _BEGUN)

    return Case(name, prepare, act, holds, lambda root: after(root, _BEGUN))


def none_waits(root: Path) -> None:
    """Assert that all waiting records were sent."""
    after(root, _BEGUN)
    assert not RecordReader(root).notes(AGENT)


assert len(NEW) < cabinets.AT_ONCE
CASES = (
    appended("first", nothing, []),
    appended("append", begin, _BEGUN),
    kept("sent", begin, sent)._replace(after=none_waits),
    kept("failed", begin, failed),
    kept("index", index_is_gone, tidy),
    Case("forget", begin_with_ada, forget_ada, partly_forgotten, forgotten),
)

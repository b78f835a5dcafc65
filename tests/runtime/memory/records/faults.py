"""Faults at every call that touches the disk: `python -m tests.runtime.memory.records.faults kill|full|disk FOLDER`.

Each case is done in a fresh copy of its beginning, once for every such call. `kill`: in a process of its own that is
killed (SIGKILL) just before that call, and for a write also after half of it. `full`: the call fails as on a full disk,
a write after half of it. `disk`: FOLDER is a small file system of its own, with one page more left each time. Then what
must hold in between is checked, the case is done again without a fault, and what must hold at the end is checked.
Prints one line of JSON: for each case how many faults there were, and what broke.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from runtime.memory.errors import StoreError
from runtime.memory.item import Item, delivery_uri
from runtime.memory.records import cabinet as cabinets
from runtime.memory.records.cabinet import Cabinet
from runtime.memory.records.reading import Archive
from runtime.memory.records.record import read_name
from runtime.memory.records.works import Mark, Tidy, Work, Write
from runtime.memory.store import Scan
from tests.clocks import ManualClock
from tests.runtime.memory.texts import WHEN, fact, item

AGENT = "reviewer"
_CALLS = ("open", "write", "fsync", "replace", "rename", "unlink", "mkdir")
_FILLING = ("open", "write", "replace", "rename", "mkdir")
NEW = (
    fact("Learned", source_uri=delivery_uri("new", "fact"), tags=("x",)),
    item("New\n- one", source_uri=delivery_uri("new")),
    item("Yesterday", source_uri=delivery_uri("older"), timestamp=WHEN - timedelta(days=1)),
)
Faulty = Callable[["Case", Path, int, bool], bool]


class Case(NamedTuple):
    """`act` may be done again after any fault; `texts` is what is there before, and after."""

    name: str
    prepare: Callable[[Path], None]
    act: Callable[[Path], None]
    texts: tuple[list[str], list[str]]


def perform(root: Path, *works: Work) -> None:
    """Do these works as a process would that has just started."""
    archive = Archive(root)
    for outcome in Cabinet(root, AGENT, ManualClock(), archive.shelf(AGENT)).perform(works).outcomes:
        if isinstance(outcome, Exception):
            raise outcome


def keep(items: tuple[Item, ...], *, remote: bool) -> Write:
    return Write(items, tuple({"governance": "na:x"} for _ in items), remote)


def nothing(_: Path) -> None:
    """An empty disk."""


def begin(root: Path) -> None:
    """A few records, one of them waiting to be sent."""
    perform(root, keep((fact("Old", source_uri=delivery_uri("old")), item("Older")), remote=False))
    perform(root, keep((fact("Waits", source_uri=delivery_uri("waits")),), remote=True))


def append(root: Path) -> None:
    perform(root, keep(NEW, remote=True))


def sent(root: Path) -> None:
    """What waits was sent, and so it is written down."""
    for note in Archive(root).notes(AGENT):
        perform(root, Mark(note, sent=True, error=None, done=True, facts={"remote": "test"}))


def failed(root: Path) -> None:
    """What waits could not be sent."""
    for note in Archive(root).notes(AGENT):
        perform(root, Mark(note, sent=False, error="it is away", done=False, facts={"remote": "test"}))


def index_is_gone(root: Path) -> None:
    begin(root)
    (root / AGENT / "index.json").unlink()


def tidy(root: Path) -> None:
    perform(root, Tidy(recover=True))


_NEW = sorted(one.text.partition("\n")[0] for one in NEW)
_BEGUN = sorted(["Old", "Older", "Waits"])
CASES = (
    Case("first", nothing, append, ([], _NEW)),
    Case("append", begin, append, (_BEGUN, sorted([*_BEGUN, *_NEW]))),
    Case("sent", begin, sent, (_BEGUN, _BEGUN)),
    Case("failed", begin, failed, (_BEGUN, _BEGUN)),
    Case("index", index_is_gone, tidy, (_BEGUN, _BEGUN)),
)


def records(root: Path) -> list[Item]:
    archive = Archive(root)
    return [one for names in archive.batches(AGENT, Scan()) for one, _ in archive.read(AGENT, names)]


def texts(root: Path) -> list[str]:
    return sorted(one.text.partition("\n")[0] for one in records(root))


def between(case: Case, root: Path, *, all_or_nothing: bool) -> None:
    """Nothing is lost, damaged or there twice, and whatever is there and not sent has its note."""
    found = texts(root)
    assert not Counter(case.texts[0]) - Counter(found), found
    assert not Counter(found) - Counter(case.texts[1]), found
    if all_or_nothing:
        assert found in case.texts, found
    problems = [problem for problem in Archive(root).verify(AGENT)[1] if "and is gone" not in problem.message]
    assert not problems, problems
    noted = {note.record for note in Archive(root).notes(AGENT)}
    for file in (root / AGENT).glob("*_*.json"):
        if read_name(file.name) is not None and json.loads(file.read_bytes())["remote_store_error"] == "pending":
            assert file.name in noted, file


def after(case: Case, root: Path) -> None:
    """All is there once, with its evidence, its notes and an index, and nothing else is."""
    tidy(root)
    between(case, root, all_or_nothing=False)
    assert texts(root) == case.texts[1]
    assert Archive(root).verify(AGENT)[1] == []
    folder, ids = root / AGENT, {one.memory_id for one in records(root)}
    proved = [file.name.split("_")[2] for file in (folder / "evidence").glob("*_memory_store_local.json")]
    assert sorted(proved) == sorted(ids), proved
    index = json.loads((folder / "index.json").read_bytes())
    assert index["memory_count"] == len(ids)
    there = {file.name for file in folder.iterdir()}
    assert {note.record for note in Archive(root).notes(AGENT)} <= there
    left = [file.name for file in root.rglob("*") if "~" in file.name]
    assert not left, left
    if case.name == "sent":
        assert not Archive(root).notes(AGENT)


class Fault:
    """Call `number`, counted from 1, meets `fault`; `met` says whether it came that far."""

    def __init__(self, number: int, half: bool, fault: Callable[[], None], calls: tuple[str, ...]) -> None:
        self.met = False
        self._left = number
        self._half = half
        self._fault = fault
        self._calls = calls
        self._real: dict[str, Callable[..., Any]] = {}
        self.seen: list[str] = []

    def __enter__(self) -> Fault:
        for name in self._calls:
            self._real[name] = getattr(os, name)
            setattr(os, name, self._faulty(name, self._real[name]))
        return self

    def __exit__(self, *_: object) -> None:
        for name, function in self._real.items():
            setattr(os, name, function)

    def _faulty(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if self._calls is _FILLING and name == "open" and not arguments[1] & os.O_CREAT:
                return real(*arguments, **named)
            self._left -= 1
            self.seen.append(name)
            if self._left == 0:
                self.met = True
                if self._half and name == "write":
                    real(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                self._fault()
            return real(*arguments, **named)

        return call


def killed(case: Case, root: Path, number: int, half: bool) -> bool:
    """Do it in a process that is killed at that call; whether it came that far."""
    child = os.fork()
    if child == 0:
        try:
            with Fault(number, half, lambda: os.kill(os.getpid(), signal.SIGKILL), _CALLS):
                case.act(root)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGKILL), status
    between(case, root, all_or_nothing=False)
    return status != 0


def full(case: Case, root: Path, number: int, half: bool) -> bool:
    """Do it while that call fails as on a full disk; whether it came that far."""

    def fault() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with Fault(number, half, fault, _FILLING) as met:
        refused = _act(case, root)
    between(case, root, all_or_nothing=True)
    if refused and case.act is append:
        assert texts(root) == case.texts[0], "what was refused is there"
    return met.met


def crowded(case: Case, root: Path, number: int, _half: bool) -> bool:
    """Do it on a disk that has that many pages left, less one; whether they were too few."""
    ballast = root.with_name("ballast")
    page = os.statvfs(root).f_bsize
    with ballast.open("wb", buffering=0) as file:
        for _ in range(os.statvfs(root).f_bavail - number + 1):
            file.write(bytes(page))
    refused = _act(case, root)
    free = os.statvfs(root).f_bavail
    ballast.unlink()
    between(case, root, all_or_nothing=True)
    return refused or free == 0


def _act(case: Case, root: Path) -> bool:
    """Whether it was refused, for want of space and saying so."""
    refused: StoreError | None = None
    try:
        case.act(root)
    except StoreError as error:
        refused = error
    if refused is None:
        return False
    assert "No space left" in str(refused), refused
    assert str(root) in str(refused), refused
    assert refused.hint is not None, refused
    return True


def _writes(case: Case, begun: Path, root: Path, calls: tuple[str, ...]) -> set[int]:
    """Which of the calls are writes, and may so be cut off in their middle."""
    shutil.copytree(begun, root)
    with Fault(0, False, lambda: None, calls) as counted:
        case.act(root)
    shutil.rmtree(root)
    return {number for number, name in enumerate(counted.seen, 1) if name == "write"}


def run(case: Case, faulty: Faulty, folder: Path) -> dict[str, object]:
    """How many faults there were, and what broke."""
    begun = folder / "begun"
    begun.mkdir()
    case.prepare(begun)
    writes = _writes(case, begun, folder / "counted", _FILLING if faulty is full else _CALLS)
    number, broken, went_on = 0, [], True
    while went_on:
        number += 1
        for half in (False, True) if number in writes and faulty is not crowded else (False,):
            root = folder / f"{number}-{half}"
            shutil.copytree(begun, root)
            try:
                went_on = faulty(case, root, number, half)
                case.act(root)
                after(case, root)
            except Exception as error:
                trace = traceback.extract_tb(error.__traceback__)[-1]
                broken.append(f"{number} {half}: {type(error).__name__}: {error} ({trace.name} {trace.lineno})")
            shutil.rmtree(root)
    shutil.rmtree(begun)
    return {"case": case.name, "faults": number - 1, "broken": broken}


if __name__ == "__main__":
    assert len(NEW) < cabinets.AT_ONCE
    mode: Faulty = {"kill": killed, "full": full, "disk": crowded}[sys.argv[1]]
    print(json.dumps([run(case, mode, Path(sys.argv[2])) for case in CASES]))  # noqa: T201

"""Faults at every call that touches the disk: `python -m tests.runtime.memory.faults kill|full|disk FOLDER`.

Each case is done in a fresh copy of its beginning, once for every such call. `kill`: in a process of its own that is
killed (SIGKILL) just before that call, and for a write also after half of it. `full`: the call fails as on a full disk,
a write after half of it. `disk`: FOLDER is a small file system of its own, which is full but for one page more each
time. Then what must hold in between is checked, the case is done again without a fault, and what must hold at the end
is checked. Prints one line of JSON: for each case how many faults there were, and what broke.
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
from datetime import date, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from runtime.memory.archive import Archive
from runtime.memory.compaction import compact
from runtime.memory.errors import FsyncFailed, StoreError
from runtime.memory.item import Item, delivery_uri
from runtime.memory.lasting import lasting
from runtime.memory.log import Log, days
from runtime.memory.notebook import Change, Notebook
from runtime.memory.store import Scan
from tests.clocks import ManualClock
from tests.runtime.memory.texts import WHEN, fact, item

AGENT = "reviewer"
TODAY = WHEN.date()
_CALLS = ("open", "write", "fsync", "replace", "rename", "unlink", "mkdir", "rmdir", "ftruncate")
_FILLING = ("write", "replace", "rename", "mkdir", "open")
NEW = (
    item("New\n- [fact] nine\n- more", source_uri=delivery_uri("new"), tags=("x",)),
    item("New, yesterday", source_uri=delivery_uri("older"), timestamp=WHEN - timedelta(days=1)),
    fact("Learned", source_uri=delivery_uri("new", "fact")),
    item("Do it so", "procedural", source_uri=delivery_uri("new", "procedure")),
)


class Case(NamedTuple):
    """`act` may be done again after any fault. `between` and `after` say with assertions what holds then."""

    name: str
    prepare: Callable[[Path], None]
    act: Callable[[Path], None]
    between: Callable[[Path], None]
    after: Callable[[Path], None]


def notebook(root: Path) -> Notebook:
    """The agent's, with nothing remembered from before."""
    return Notebook(root, AGENT, ManualClock())


def items(root: Path) -> list[Item]:
    """Everything the agent remembers."""
    return [one for file in Archive(root).files(AGENT, Scan()) for one in file.read()]


def texts(root: Path) -> list[str]:
    """The first line of everything."""
    return sorted(one.text.partition("\n")[0] for one in items(root))


def by_source(root: Path) -> dict[str | None, list[str]]:
    """The texts by where they are from."""
    found: dict[str | None, list[str]] = {}
    for one in items(root):
        found.setdefault(one.source_uri, []).append(one.text)
    return found


def begin(root: Path) -> None:
    """A memory with a few facts and entries, to which nothing may happen."""
    older = (item(f"Entry {n}", timestamp=WHEN - timedelta(days=n)) for n in range(3))
    notebook(root).perform([(*older, fact("Old fact"), fact("Kept fact"), item("Old entry"))])


def nothing(_root: Path) -> None:
    """An empty disk."""


_BEGUN = sorted(["Entry 0", "Entry 1", "Entry 2", "Old fact", "Kept fact", "Old entry"])


# Append


def append(root: Path) -> None:
    notebook(root).perform([NEW])


def partly_appended(begun: list[str]) -> Callable[[Path], None]:
    def holds(root: Path) -> None:
        missing = Counter(begun) - Counter(texts(root))
        assert not missing, missing
        for one in items(root):
            whole = next((new for new in NEW if new.source_uri == one.source_uri), None)
            assert whole is None or whole.text == one.text, one

    return holds


def appended(begun: list[str]) -> Callable[[Path], None]:
    def holds(root: Path) -> None:
        partly_appended(begun)(root)
        found = by_source(root)
        for new in NEW:
            assert found[new.source_uri] == [new.text], found
        no_leftovers(root)

    return holds


# Change


def change(old: str, new: str | None) -> Callable[[Path], None]:
    def act(root: Path) -> None:
        ids = [one.memory_id for one in items(root) if one.text == old]
        for outcome in notebook(root).perform([Change(memory_id, new) for memory_id in ids]):
            if isinstance(outcome, StoreError):
                raise outcome

    return act


def changed(old: str, new: str | None, *, done: bool) -> Callable[[Path], None]:
    rest = [text for text in _BEGUN if text != old]
    after = sorted([*rest, new] if new is not None else rest)

    def holds(root: Path) -> None:
        found = texts(root)
        assert found == after or (not done and found == _BEGUN), found
        if done:
            no_leftovers(root)

    return holds


# Compact


def begin_logs(root: Path) -> None:
    """Logs of five days, of which one fact was taken over before and then deleted by a person."""
    logs = root / AGENT / "logs"
    logs.mkdir(parents=True)
    for back in range(5):
        day = TODAY - timedelta(days=back)
        bullets = [f"- [fact] of {back}", "- [fact] said every day", f"- [procedure] of {back}", "- plain"]
        (logs / f"{day}.md").write_text("\n".join([f"# Session Log: {day}", "", "## 09:00 — Work", *bullets, ""]))
    compact(notebook(root), date.min)
    memory = root / AGENT / "memory.md"
    memory.write_text("".join(line for line in memory.read_text().splitlines(True) if "of 4" not in line))
    for back in range(5):
        with (logs / f"{TODAY - timedelta(days=back)}.md").open("a") as log:
            log.write(f"\n## 10:00 — More\n- [pattern] pattern {back}\n- [fact] said every day\n")
    memory.write_text(memory.read_text() + "\nMine.\n")


def do_compact(root: Path) -> None:
    done = compact(notebook(root), TODAY - timedelta(days=1))
    assert not done.problems


_LASTING = sorted(
    ["said every day"] + [f"of {n}" for n in range(4)] * 2 + [f"pattern {n}" for n in range(5)]
)  # what was deleted, "of 4", twice, is not among them


def partly_compacted(root: Path) -> None:
    """Nothing is lost: what is not in memory yet is in a log that is still there. Nothing is there twice."""
    memory = [one.text for one in items(root) if one.memory_type != "episodic"]
    assert not Counter(memory) - Counter(_LASTING), memory
    logs = root / AGENT / "logs"
    there = {day: Log.parse(day, (logs / f"{day}.md").read_bytes()) for day in days(names(logs))}
    held = Counter({one.key: 1 for log in there.values() for one in lasting(AGENT, log)})
    texts = Counter(one.item.text for log in there.values() for one in lasting(AGENT, log) if held.pop(one.key, 0))
    missing = Counter(_LASTING) - Counter(memory) - texts
    assert not missing, missing
    assert "Mine." in (root / AGENT / "memory.md").read_text().splitlines()


def compacted(root: Path) -> None:
    partly_compacted(root)
    assert sorted(one.text for one in items(root) if one.memory_type != "episodic") == _LASTING
    assert names(root / AGENT / "logs") == [f"{TODAY - timedelta(days=1)}.md", f"{TODAY}.md"]
    no_leftovers(root)


# Remove


def remove(root: Path) -> None:
    notebook(root).remove()
    Archive(root).sweep()


def all_or_none(root: Path) -> None:
    assert texts(root) in (_BEGUN, [])


def removed(root: Path) -> None:
    assert names(root) == []


def names(folder: Path) -> list[str]:
    """What is in a folder."""
    return sorted(file.name for file in folder.iterdir())


def no_leftovers(root: Path) -> None:
    """No temporary file is left."""
    left = [file.name for file in root.rglob("*") if "~" in file.name]
    assert not left, left


CASES = (
    Case("append", begin, append, partly_appended(_BEGUN), appended(_BEGUN)),
    Case("append first", nothing, append, partly_appended([]), appended([])),
    Case("edit fact", begin, change("Old fact", "New"), *(changed("Old fact", "New", done=d) for d in (False, True))),
    Case(
        "edit entry", begin, change("Old entry", "New"), *(changed("Old entry", "New", done=d) for d in (False, True))
    ),
    Case("delete fact", begin, change("Old fact", None), *(changed("Old fact", None, done=d) for d in (False, True))),
    Case(
        "delete entry", begin, change("Old entry", None), *(changed("Old entry", None, done=d) for d in (False, True))
    ),
    Case("compact", begin_logs, do_compact, partly_compacted, compacted),
    Case("remove", begin, remove, all_or_none, removed),
)


def fail_at(number: int, half: bool, fault: Callable[[], None], calls: tuple[str, ...]) -> Callable[[], None]:
    """Let call `number`, counted from 1, meet the fault; returns what takes that back."""
    left = [number]
    real = {name: getattr(os, name) for name in calls}

    def faulty(name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if name == "open" and calls is _FILLING and not arguments[1] & os.O_CREAT:
                return real[name](*arguments, **named)
            left[0] -= 1
            if left[0] == 0:
                if half and name == "write":
                    real["write"](arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                fault()
            return real[name](*arguments, **named)

        return call

    for name in calls:
        setattr(os, name, faulty(name))

    def undo() -> None:
        for name, function in real.items():
            setattr(os, name, function)

    return undo


def said_to_be_full(error: StoreError, root: Path) -> None:
    """The error says what, where and what to do."""
    assert "No space left" in str(error), error
    assert str(root) in str(error), error
    assert error.hint is not None, error


def killed(case: Case, root: Path, number: int, half: bool) -> bool:
    """Do it in a process that is killed at that call; whether it came that far."""
    child = os.fork()
    if child == 0:
        try:
            fail_at(number, half, lambda: os.kill(os.getpid(), signal.SIGKILL), _CALLS)
            case.act(root)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGKILL), status
    return status != 0


def full(case: Case, root: Path, number: int, half: bool) -> bool:
    """Do it while that call fails as on a full disk; whether it came that far."""

    def fault() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    undo = fail_at(number, half, fault, _FILLING)
    try:
        case.act(root)
    except FsyncFailed:
        raise
    except StoreError as error:
        said_to_be_full(error, root)
        return True
    finally:
        undo()
    return False


def crowded(case: Case, root: Path, number: int, _half: bool) -> bool:
    """Do it on a disk that has that many pages left, less one; whether they were too few."""
    ballast = root.with_name("ballast")
    page = os.statvfs(root).f_bsize
    with ballast.open("wb", buffering=0) as file:
        for _ in range(os.statvfs(root).f_bavail - number + 1):
            file.write(bytes(page))
    try:
        case.act(root)
    except StoreError as error:
        said_to_be_full(error, root)
        return True
    finally:
        ballast.unlink()
    return False


def run(case: Case, faulty: Callable[[Case, Path, int, bool], bool], folder: Path) -> dict[str, object]:
    """How many faults there were, and what broke."""
    begun = folder / "begun"
    begun.mkdir()
    case.prepare(begun)
    number, broken = 0, []
    went_on = True
    while went_on:
        number += 1
        for half in (False, True):
            root = folder / f"{number}-{half}"
            shutil.copytree(begun, root)
            try:
                went_on = faulty(case, root, number, half)
                case.between(root)
                case.act(root)
                case.after(root)
            except Exception as error:
                trace = traceback.extract_tb(error.__traceback__)[-1]
                broken.append(f"{number} {half}: {type(error).__name__}: {error} ({trace.name} {trace.lineno})")
            shutil.rmtree(root)
    shutil.rmtree(begun)
    return {"case": case.name, "faults": number - 1, "broken": broken}


if __name__ == "__main__":
    mode = {"kill": killed, "full": full, "disk": crowded}[sys.argv[1]]
    print(json.dumps([run(case, mode, Path(sys.argv[2])) for case in CASES]))  # noqa: T201

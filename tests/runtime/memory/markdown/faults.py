"""A Markdown memory on a failing disk: the cases for `tests.runtime.memory.faults`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

from runtime.memory.errors import StoreError
from runtime.memory.item import Item, delivery_uri
from runtime.memory.markdown.agent_memory import AgentMemory, MarkdownEdit
from runtime.memory.markdown.compaction import compact
from runtime.memory.markdown.long_term import marked_bullets
from runtime.memory.markdown.reader import MarkdownReader
from runtime.memory.markdown.text.daily_log import DailyLog, days
from runtime.memory.store_types import Scan
from tests.clocks import ManualClock
from tests.runtime.memory.faults import Case, Outcome, no_leftovers
from tests.runtime.memory.texts import WHEN, fact, item

AGENT = "reviewer"
TODAY = WHEN.date()
NEW = (
    item("New\n- [fact] nine\n- more", source_uri=delivery_uri("new"), tags=("x",)),
    item("New, yesterday", source_uri=delivery_uri("older"), timestamp=WHEN - timedelta(days=1)),
    fact("Learned", source_uri=delivery_uri("new", "fact")),
    item("Do it so", "procedural", source_uri=delivery_uri("new", "procedure")),
)


def agent_memory(root: Path) -> AgentMemory:
    """Return the agent's memory, freshly opened."""
    return AgentMemory(root, AGENT, ManualClock())


def items(root: Path) -> list[Item]:
    """Return all items of the agent."""
    return [one for batch in MarkdownReader(root).batches(AGENT, Scan()) for one in batch()]


def texts(root: Path) -> list[str]:
    """Return the first line of every item."""
    return sorted(one.text.partition("\n")[0] for one in items(root))


def by_source(root: Path) -> dict[str | None, list[str]]:
    """Return the texts by source."""
    found: dict[str | None, list[str]] = {}
    for one in items(root):
        found.setdefault(one.source_uri, []).append(one.text)
    return found


def begin(root: Path) -> None:
    """Write a memory with a few facts and entries, which must survive."""
    older = (item(f"Entry {n}", timestamp=WHEN - timedelta(days=n)) for n in range(3))
    agent_memory(root).perform([(*older, fact("Old fact"), fact("Kept fact"), item("Old entry"))])


def nothing(_root: Path) -> None:
    """Begin with an empty disk."""


_BEGUN = sorted(["Entry 0", "Entry 1", "Entry 2", "Old fact", "Kept fact", "Old entry"])


# Append


def append(root: Path) -> None:
    agent_memory(root).perform([NEW])


def partly_appended(begun: list[str]) -> Callable[[Path, Outcome], None]:
    def holds(root: Path, _outcome: Outcome) -> None:
        missing = Counter(begun) - Counter(texts(root))
        assert not missing, missing
        for one in items(root):
            whole = next((new for new in NEW if new.source_uri == one.source_uri), None)
            assert whole is None or whole.text == one.text, one

    return holds


def appended(begun: list[str]) -> Callable[[Path], None]:
    def holds(root: Path) -> None:
        partly_appended(begun)(root, "done")
        found = by_source(root)
        for new in NEW:
            assert found[new.source_uri] == [new.text], found
        no_leftovers(root)

    return holds


# Change


def change(old: str, new: str | None) -> Callable[[Path], None]:
    def act(root: Path) -> None:
        ids = [one.memory_id for one in items(root) if one.text == old]
        for outcome in agent_memory(root).perform([MarkdownEdit(memory_id, new) for memory_id in ids]):
            if isinstance(outcome, StoreError):
                raise outcome

    return act


def not_half_changed(old: str, new: str | None) -> Callable[[Path, Outcome], None]:
    def holds(root: Path, outcome: Outcome) -> None:
        found = texts(root)
        assert found == _changed(old, new) or (outcome != "done" and found == _BEGUN), found

    return holds


def changed(old: str, new: str | None) -> Callable[[Path], None]:
    def holds(root: Path) -> None:
        not_half_changed(old, new)(root, "done")
        no_leftovers(root)

    return holds


def _changed(old: str, new: str | None) -> list[str]:
    kept = [text for text in _BEGUN if text != old]
    return sorted(kept if new is None else [*kept, new])


# Compact


def begin_logs(root: Path) -> None:
    """Write logs of five days; one fact was promoted before and then deleted by a person."""
    logs = root / AGENT / "logs"
    logs.mkdir(parents=True)
    for back in range(5):
        day = TODAY - timedelta(days=back)
        bullets = [f"- [fact] of {back}", "- [fact] said every day", f"- [procedure] of {back}", "- plain"]
        (logs / f"{day}.md").write_text("\n".join([f"# Session Log: {day}", "", "## 09:00 — Work", *bullets, ""]))
    compact(agent_memory(root), date.min)
    memory = root / AGENT / "memory.md"
    memory.write_text("".join(line for line in memory.read_text().splitlines(True) if "of 4" not in line))
    for back in range(5):
        with (logs / f"{TODAY - timedelta(days=back)}.md").open("a") as log:
            log.write(f"\n## 10:00 — More\n- [pattern] pattern {back}\n- [fact] said every day\n")
    memory.write_text(memory.read_text() + "\nMine.\n")


def do_compact(root: Path) -> None:
    done = compact(agent_memory(root), TODAY - timedelta(days=1))
    assert not done.problems


_LASTING = sorted(
    ["said every day"] + [f"of {n}" for n in range(4)] * 2 + [f"pattern {n}" for n in range(5)]
)  # without the deleted fact, "of 4", which occurs twice


def partly_compacted(root: Path, _outcome: Outcome) -> None:
    """Assert that nothing is lost or there twice: what is not promoted yet is in a log that still exists."""
    memory = [one.text for one in items(root) if one.memory_type != "episodic"]
    assert not Counter(memory) - Counter(_LASTING), memory
    logs = root / AGENT / "logs"
    there = {day: DailyLog.parse(day, (logs / f"{day}.md").read_bytes()) for day in days(names(logs))}
    held = Counter({one.key: 1 for log in there.values() for one in marked_bullets(AGENT, log).promotable})
    texts = Counter(
        one.item.text for log in there.values() for one in marked_bullets(AGENT, log).promotable if held.pop(one.key, 0)
    )
    missing = Counter(_LASTING) - Counter(memory) - texts
    assert not missing, missing
    assert "Mine." in (root / AGENT / "memory.md").read_text().splitlines()


def compacted(root: Path) -> None:
    partly_compacted(root, "done")
    assert sorted(one.text for one in items(root) if one.memory_type != "episodic") == _LASTING
    assert names(root / AGENT / "logs") == [f"{TODAY - timedelta(days=1)}.md", f"{TODAY}.md"]
    no_leftovers(root)


# Remove


def remove(root: Path) -> None:
    agent_memory(root).remove()
    MarkdownReader(root).sweep()


def all_or_none(root: Path, _outcome: Outcome) -> None:
    assert texts(root) in (_BEGUN, [])


def removed(root: Path) -> None:
    assert names(root) == []


# Forget


def begin_with_ada(root: Path) -> None:
    """Add another user's items."""
    begin(root)
    theirs = (item(f"Ada {n}", timestamp=WHEN - timedelta(days=n), user_id="ada") for n in range(2))
    agent_memory(root).perform([(*theirs, fact("Ada likes tea", user_id="ada"), fact("Last fact"))])


def forget_ada(root: Path) -> None:
    agent_memory(root).forget_user("ada")


_LEFT = sorted([*_BEGUN, "Last fact"])


def partly_forgotten(root: Path, _outcome: Outcome) -> None:
    found = texts(root)
    assert not Counter(_LEFT) - Counter(found), found
    assert not Counter(found) - Counter([*_LEFT, "Ada 0", "Ada 1", "Ada likes tea"]), found


def forgotten(root: Path) -> None:
    assert texts(root) == _LEFT
    assert not any(b"Ada" in file.read_bytes() for file in root.rglob("*.md"))
    no_leftovers(root)


def names(folder: Path) -> list[str]:
    """Return the names in a folder."""
    return sorted(file.name for file in folder.iterdir())


def change_case(name: str, old: str, new: str | None) -> Case:
    """Edit or delete one of the first items."""
    return Case(name, begin, change(old, new), not_half_changed(old, new), changed(old, new))


CASES = (
    Case("append", begin, append, partly_appended(_BEGUN), appended(_BEGUN)),
    Case("append first", nothing, append, partly_appended([]), appended([])),
    change_case("edit fact", "Old fact", "New"),
    change_case("edit entry", "Old entry", "New"),
    change_case("delete fact", "Old fact", None),
    change_case("delete entry", "Old entry", None),
    Case("compact", begin_logs, do_compact, partly_compacted, compacted),
    Case("forget", begin_with_ada, forget_ada, partly_forgotten, forgotten),
    Case("remove", begin, remove, all_or_none, removed),
)

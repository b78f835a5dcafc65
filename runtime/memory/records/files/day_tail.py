"""The last records of each day: only an append after them can be reported as one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from itertools import takewhile

from runtime.memory.item import Item
from runtime.memory.records.files.name_index import RecordNameIndex
from runtime.memory.records.files.record import stamp
from runtime.memory.store_types import Append, Part

_TIMES = 4096  # number of records whose exact times are cached; their names have only seconds


class DayTail:
    """The times of the last written records in one folder."""

    def __init__(self, agent_id: str, name_index: RecordNameIndex) -> None:
        self._agent_id = agent_id
        self._name_index = name_index
        self._times: dict[str, datetime] = {}

    def appends(self, new: Sequence[tuple[str, Item]], before: Mapping[date, str | None]) -> Iterator[Append]:
        """Yield what was appended at the end of a day; any other change shows in the revision. `before`: the revisions
        of the days without these names."""
        self._times.update((name, item.timestamp) for name, item in new)
        for day, revision in before.items():
            own = sorted(
                ((item.timestamp, name, item) for name, item in new if item.timestamp.date() == day),
                key=lambda each: each[:2],
            )
            after = self._name_index.revision(day)
            if after is not None and self._are_last(day, own[0][0], {name for _, name, _ in own}):
                yield Append(part_of(self._agent_id, day, after), revision, tuple(item for *_, item in own))
        while len(self._times) > _TIMES:
            self._times.pop(next(iter(self._times)))

    def _are_last(self, day: date, earliest: datetime, new: set[str]) -> bool:
        """True if every other record of the day is older than `earliest`. Names have the time to the second; the exact
        time is known for the last written ones."""
        with self._name_index.lock:
            names = self._name_index.days.get(day, [])
            if new != set(names[-len(new) :]):
                return False
            second = stamp(earliest)
            same = takewhile(lambda name: name.startswith(second), reversed(names[: -len(new)]))
            return all(name in self._times and self._times[name] <= earliest for name in same)


def part_of(agent_id: str, day: date, revision: str) -> Part:
    """Return the part of a day's records."""
    return Part(f"{agent_id}/{day.isoformat()}", agent_id, revision)

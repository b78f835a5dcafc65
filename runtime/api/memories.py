"""The resource `memories`: what agents remember, as it stands in their files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from typing import Any

from runtime.api.house import House
from runtime.api.parameters import optional_text, text
from runtime.clock import utc
from runtime.errors import UsageError
from runtime.memory import Store
from runtime.names import unknown

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}\Z", re.ASCII)


async def list_agents(house: House, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Every agent that has a memory."""
    agents = []
    for name, memory in house.memories.items():
        store = memory.store
        for agent in await store.agents():
            stats = await store.stats(agent)
            agents.append(
                {
                    "agent": agent,
                    "memory": name,
                    "files": stats.files,
                    "bytes": stats.bytes,
                    "oldest": stats.oldest and stats.oldest.isoformat(),
                    "newest": stats.newest and stats.newest.isoformat(),
                    "problems": [problem._asdict() for problem in stats.problems],
                }
            )
    return {"agents": agents}


async def inspect(house: House, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """`agent`, and optionally `day` (default: today in UTC) → the text of memory.md and of that day's log."""
    agent = text(parameters, "agent")
    day = _day(optional_text(parameters, "day"), house)
    store, known = await _find(house, agent)
    if store is None:
        raise unknown("agent", agent, known)
    seen = await store.inspect(agent, day)
    return {
        "agent": agent,
        "memory": {"path": seen.memory_file, "text": seen.memory},
        "log": {"path": seen.log_file, "text": seen.log},
    }


async def _find(house: House, agent: str) -> tuple[Store | None, set[str]]:
    """Where `agent` remembers, and every agent that could be asked for: its own memory before those of webhooks."""
    own = house.memory_of(agent)
    remembers = {name: set(await memory.store.agents()) for name, memory in house.memories.items()}
    known = {entry.agent for entry in house.mounts.values() if entry.agent}.union(*remembers.values())
    places = [name for name in sorted(remembers, key=lambda name: name != own) if agent in remembers[name]]
    if not places and agent in known and own in house.memories:
        places = [own]
    return (house.memories[places[0]].store if places else None), known


def _day(given: str | None, house: House) -> date:
    if given is None:
        return utc(house.clock.now()).date()
    try:
        if not _DAY.match(given):
            raise ValueError
        return date.fromisoformat(given)
    except ValueError:
        raise UsageError(f"{given!r} is not a day", hint="write YYYY-MM-DD") from None

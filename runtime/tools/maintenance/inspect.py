"""The tool that shows the files of a memory."""

from __future__ import annotations

import re
from datetime import date

from runtime.clock import utc
from runtime.errors import UsageError
from runtime.tools.context import Context
from runtime.tools.memory.access import places
from runtime.tools.memory.parameters import Agent, Day, MemoryToInspect
from runtime.tools.memory.results import MemoryFile, MemoryFiles
from runtime.tools.tool import tool

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}\Z", re.ASCII)


@tool("admin", read_only=True, example={"agent": "reviewer", "day": "2026-11-20"})
async def memory_inspect(
    context: Context, agent: Agent, day: Day = None, memory: MemoryToInspect = None
) -> MemoryFiles:
    """Show the memory file of an agent and its log of a day, unchanged."""
    if context.acting is not None:
        # A file has the items of all subjects.
        raise UsageError("an agent cannot read memory files", hint="use archival_search or memory_list")
    wanted = _day(context, day)
    where = (await places(context, agent, memory))[0]
    seen = await where.store.inspect(agent, wanted)
    return MemoryFiles(
        agent=agent,
        name=where.name,
        memory=MemoryFile(path=seen.memory_file, text=seen.memory),
        log=MemoryFile(path=seen.log_file, text=seen.log),
    )


def _day(context: Context, given: str | None) -> date:
    if given is None:
        return utc(context.clock.now()).date()
    try:
        if not _DAY.match(given):
            raise ValueError
        return date.fromisoformat(given)
    except ValueError:
        raise UsageError(f"{given!r} is not a day", hint="write YYYY-MM-DD") from None

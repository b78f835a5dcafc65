"""Turns that wait because a user switched off their agent, and go on because the program changed."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from dslc.program import Program
from runtime.clock import Clock, milliseconds
from runtime.database.connection import Database
from runtime.threads.run import SWITCHED_OFF
from runtime.threads.turns import parking
from runtime.tools.agent.access import model_of


async def wake_after(previous: Program, program: Program, database: Database, clock: Clock) -> int:
    """Make the turns due that may go on now, of agents that the program removes or changes in what decides about them.
    After no program these are those of all agents. Returns their number. Raises `Unavailable`."""
    names = [
        each for each in {*previous.agents, *program.agents} if _decides(previous, each) != _decides(program, each)
    ]

    def wake(connection: Connection) -> int:
        now = milliseconds(clock)
        if not previous.agents:
            return parking.wake(connection, SWITCHED_OFF, now)
        return sum(parking.wake(connection, SWITCHED_OFF, now, agent=each) for each in sorted(names))

    return await database.transact(wake) if names else 0


def _decides(program: Program, name: str) -> Any:
    """Return what decides whether a user can switch off an agent."""
    agent = program.agents.get(name)
    return None if agent is None else (agent.enabled, model_of(agent) is not None, "enabled" in agent.lock)

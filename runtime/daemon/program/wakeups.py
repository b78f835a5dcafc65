"""Turns that wait because a user switched off their agent, or for a budget, and go on because the program changed."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from dslc.program import Program
from runtime.clock import Clock, milliseconds
from runtime.database.connection import Database
from runtime.threads.run import BUDGET_EXCEEDED, SWITCHED_OFF
from runtime.threads.turns import parking
from runtime.tools.agent.access import model_of


async def wake_after(previous: Program, program: Program, database: Database, clock: Clock) -> int:
    """Make the turns due that may go on now, of agents that the program removes or changes in what decides about them,
    and all that wait for a budget if limits or prices changed. After no program these are those of all agents. Returns
    their number. Raises `Unavailable`."""
    names = [
        each for each in {*previous.agents, *program.agents} if _switching(previous, each) != _switching(program, each)
    ]
    budgets = not previous.agents or _limits_and_prices(previous) != _limits_and_prices(program)

    def wake(connection: Connection) -> int:
        now = milliseconds(clock)
        woken = parking.wake(connection, BUDGET_EXCEEDED, now) if budgets else 0
        if not previous.agents:
            return woken + parking.wake(connection, SWITCHED_OFF, now)
        return woken + sum(parking.wake(connection, SWITCHED_OFF, now, agent=each) for each in sorted(names))

    return await database.transact(wake) if names or budgets else 0


def _switching(program: Program, name: str) -> Any:
    """Return the settings that decide whether a user can switch off an agent."""
    agent = program.agents.get(name)
    return None if agent is None else (agent.enabled, model_of(agent) is not None, "enabled" in agent.lock)


def _limits_and_prices(program: Program) -> tuple[Any, ...]:
    limits = {agent.name: agent.limits for agent in program.agents.values()}
    return limits, {model.name: (model.input_price, model.output_price) for model in program.models.values()}

"""Names of agents. They follow the rule of the language, because they are names of folders too."""

from __future__ import annotations

from dslc.blocks.values.names import NAME_RULE, is_name
from runtime.memory.errors import RefusedItem


def legal(agent_id: str) -> str:
    """Return the name of an agent. Raises RefusedItem if it is invalid."""
    if not is_name(agent_id):
        raise RefusedItem(f"{agent_id[:80]!r} is not a valid name of an agent", hint=NAME_RULE)
    return agent_id

"""The names that agents may have: the language's, as they are the names of folders."""

from __future__ import annotations

from dslc.blocks.values.names import NAME_RULE, is_name
from runtime.memory.errors import RefusedItem


def legal(agent_id: str) -> str:
    """The agent's name, when it may have it. Raises RefusedItem."""
    if not is_name(agent_id):
        raise RefusedItem(f"{agent_id[:80]!r} is no name of an agent", hint=NAME_RULE)
    return agent_id

"""The settings that a user gives an agent, and the agent as it is with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, get_args

from dslc.blocks.agent import Agent, UserSetting
from dslc.blocks.variant import Variant
from dslc.program import Program
from runtime.crypto import Unsealable
from runtime.switches import SwitchedOff
from runtime.threads.agent_settings import AgentSettings
from runtime.tools.agent.access import model_of

USER_SETTINGS: Final[tuple[UserSetting, ...]] = get_args(UserSetting)
"""All settings that a user can give an agent."""


class OwnAgent(NamedTuple):
    """An agent as it is for one user.

    `agent`: with the settings of the user in place of the program's. `settings`: those that count. `ignored`: those
    that do not, and why, in one line each.
    """

    agent: Agent
    settings: Mapping[str, Any]
    ignored: Mapping[str, str]

    @property
    def switched_off(self) -> bool:
        """True if the user has switched off an agent that the program has not."""
        return self.settings.get("enabled") is False


async def read_own_agent(stored: AgentSettings, program: Program, agent: Agent, user_id: str) -> OwnAgent:
    """Return the agent of the program as it is for a user; a recorder has no settings of users. Raises `Unsealable` if
    they cannot be opened, and `Unavailable`."""
    if model_of(agent) is None:
        return own_agent(program, agent, {})
    return own_agent(program, agent, (await stored.get(user_id, agent.name)).settings)


async def running_agent(stored: AgentSettings, program: Program, agent: Agent, user_id: str) -> OwnAgent:
    """Return the agent as it is for a user for whom it runs. Raises SwitchedOff if the user has switched it off, or may
    have, as the settings cannot be opened; and `Unavailable`."""
    try:
        own = await read_own_agent(stored, program, agent, user_id)
    except Unsealable:
        what = f"the settings that the user gave the agent {agent.name} cannot be read"
        raise SwitchedOff(what, hint="replace them; `symbi agent config` does") from None
    if own.switched_off:
        back = f"set its setting `enabled` to true; `symbi agent config unset {agent.name} enabled` does"
        raise SwitchedOff(f"the user has switched off the agent {agent.name}", hint=back)
    return own


def own_agent(program: Program, agent: Agent, stored: Mapping[str, Any]) -> OwnAgent:
    """Return the agent of the program as it is with the stored settings of a user.

    What the program locks is ignored, and so are a model that it does not offer any more, and an agent's `enabled` if
    the program disables it.
    """
    settings: dict[str, Any] = {}
    ignored: dict[str, str] = {}
    for name in USER_SETTINGS:
        if name not in stored:
            continue
        reason = _reason_against(program, agent, name, stored[name])
        if reason is None:
            settings[name] = stored[name]
        else:
            ignored[name] = reason
    return OwnAgent(_agent_with(agent, settings), settings, ignored)


def offered_models(program: Program, agent: Agent) -> Sequence[str]:
    """Return the names of the models that a user can give an agent: those that the program offers, with prices if the
    costs of the agent are limited."""
    offered = {name: block for name, block in program.models.items() if block.offered}
    limited = agent.limits.cost_per_day is not None
    return sorted(name for name, block in offered.items() if block.has_prices or not limited)


def _reason_against(program: Program, agent: Agent, name: UserSetting, value: Any) -> str | None:
    if name in agent.lock:
        return f"the program locks `{name}`"
    if name == "model" and value not in offered_models(program, agent):
        return f"the program does not offer the model {value} for the agent any more"
    if name == "enabled" and not agent.enabled:
        return "the program disables the agent"
    return None


def _agent_with(agent: Agent, settings: Mapping[str, Any]) -> Agent:
    changed: dict[str, Any] = {}
    if "model" in settings:
        changed["model"] = Variant(name=settings["model"])
    if "system_prompt" in settings:
        changed["instruction"] = settings["system_prompt"]
    size = {name: settings[name] for name in ("max_tokens", "compaction_threshold") if name in settings}
    if size:
        changed["context"] = agent.context.model_copy(update=size)
    return agent.model_copy(update=changed) if changed else agent

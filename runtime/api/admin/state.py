"""First parameter of every operation: a tool's context, and the state that only administrators use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

from runtime.agents.services import AgentServices
from runtime.agents.turn import AgentContext
from runtime.database.resealing import Resealing
from runtime.identity.caller import Caller
from runtime.identity.tokens import Tokens
from runtime.identity.user_settings import UserSettingsStore
from runtime.models.client import ModelClient
from runtime.models.model import ModelUnavailable
from runtime.secrets.backend import SecretContext
from runtime.switches import AGENTS
from runtime.threads.run import PARKED, SWITCHED_OFF
from runtime.threads.turns.turn import LIVING, QUEUED, RUNNING
from runtime.tool_servers.server import ProgramServers, ServerRegistry
from runtime.tools.agent.overrides import OwnAgent
from runtime.tools.context import ActingAgent, Context
from runtime.webhooks.routing.route import MountedWebhook

Event: TypeAlias = Mapping[str, Any]
"""Event of a running operation, as JSON. `event` names it."""


def _ignore_event(_event: Event) -> None:
    pass


class ModelStatus(NamedTuple):
    """A model of the program, by its block or row. `client`: None if it cannot be used. `problems`: why that is so, or
    what is missing besides, one line each. `agents`: those that answer with it. `used`: False if no enabled agent and
    no memory needs it."""

    name: str
    client: ModelClient | None
    problems: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    used: bool = True


class McpState(NamedTuple):
    """`servers`: the MCP servers of the program. `registry`: approvals of servers, and logins to them.
    `follow_approvals`: serves with the approvals as they are now."""

    servers: ProgramServers
    registry: ServerRegistry
    follow_approvals: Callable[[], Awaitable[None]]


class MasterKeyControl(Protocol):
    """The master key of the root, see `MasterKeySource`."""

    @property
    def place(self) -> str:
        """Where it is stored, safe to show."""

    async def problem(self) -> str | None:
        """Return why the next start will not have the key, in one line; None if it will."""

    async def rotate(self, to: str | None) -> None:
        """Wrap all keys with another master key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramState:
    """The models of the running program, and problems of its load and its secrets."""

    models: Sequence[ModelStatus]
    """The models that the program's blocks and agents name."""
    environment_notes: Sequence[str]
    """Environment variables for embeddings and summaries that have no effect, one line each."""
    resumed: bool
    """True if the last valid program runs because the one at the start had errors."""
    reload_problem: str | None
    """The reason why the last reload failed, in one line."""
    missing_secrets: Sequence[str]
    """The reasons why secrets could not be resolved, one line each."""
    kept_secrets: Sequence[str]
    """The reasons why secrets could not be read again and keep their last value, one line each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminContext(Context):
    """State of an open root. The caller is the root's own user."""

    secrets: SecretContext
    tokens: Tokens
    mounts: Mapping[str, MountedWebhook]
    """Every webhook: declared ones by name, dynamic ones by id."""
    services: AgentServices
    """The threads and messages of agents, and the watchers of their runs."""
    agent_context: Callable[[OwnAgent, Caller, ActingAgent], AgentContext]
    """Returns the context of an agent as it is for a caller. Raises ModelUnavailable."""
    follow_secrets: Callable[[], Awaitable[None]]
    """Serves with the generated secrets as they are now, after a rotation."""
    user_settings: UserSettingsStore
    mcp: McpState
    state: Path
    """The state folder."""
    master_key: MasterKeyControl
    resealing: Resealing
    """Seals again what is sealed with retired keys."""
    program_state: ProgramState
    tell: Callable[[Event], None] = _ignore_event
    """Sends an event to the command that waits for the operation, if it takes events."""

    def shown_state(
        self, state: str | None, error: str | None = None, run_state: str | None = None
    ) -> tuple[str | None, str | None]:
        """Return the state of a turn or run, and the error beside it, as a person sees them: what waits because no
        agent runs, or for what its run waits, says so. On a shared database the running ones are those of other
        daemons. `run_state`: of the run of a turn."""
        if state == QUEUED and run_state in PARKED:
            return run_state, error
        reason = self.switches.reason(AGENTS)
        elsewhere = state == RUNNING and self.database.kind == "postgresql"
        if reason is None or elsewhere or state not in (*LIVING, ModelUnavailable.state):
            return state, error
        return SWITCHED_OFF, error or reason

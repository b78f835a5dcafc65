"""What operations, tools and agents act on: the open state of the root, and one generation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from runtime.agents.attempt import declared_blocks
from runtime.agents.prompt_context import build_prompt
from runtime.agents.turn import AgentContext
from runtime.daemon.program.generation import Generation
from runtime.daemon.program.root_state import RootState
from runtime.identity.caller import Caller
from runtime.memory.core.block import DeclaredBlock
from runtime.memory.indexing.progress import Progress
from runtime.tools.agent.overrides import OwnAgent
from runtime.tools.context import ActingAgent, Context, is_not_stopping, no_progress, nothing_queued
from runtime.webhooks.audit.audit import Audit


@dataclass(slots=True)
class DaemonHooks:
    """What a daemon adds to an open root; a command has none of it."""

    audit: Audit | None = None
    addresses: dict[str, str] = field(default_factory=dict)
    """Addresses of the listeners by name (`public`, `admin`)."""
    on_queued: Callable[[], None] = nothing_queued
    """Called after an operation queued deliveries or messages."""
    cancel_run: Callable[[str, str], Awaitable[str]] | None = None
    """Cancels a run of a user."""
    is_stopping: Callable[[], bool] = is_not_stopping
    """Returns True while the daemon stops."""
    on_fatal: Callable[[str], None] = lambda _reason: None
    """Called with the reason when the process must stop."""


@dataclass(frozen=True, slots=True)
class Contexts:
    """Contexts of a generation, valid while it is pinned."""

    state: RootState
    daemon: DaemonHooks
    generation: Generation

    def tool(self, caller: Caller, progress: Progress = no_progress, *, acting: ActingAgent | None = None) -> Context:
        """Return the context of a tool."""
        return Context(
            caller=caller,
            clock=self.state.clock,
            database=self.state.database,
            agents=self.generation.agents,
            memories=self.generation.memories,
            webhooks=self.state.dynamic_webhooks,
            routes=self.state.dynamic_routes,
            audit=self.daemon.audit,
            public_url=self._public_url,
            acting=acting,
            progress=progress,
            declared_blocks=self._declared_blocks,
            budgets=self.state.budgets,
            storage=self.state.storage,
            texts=self.state.texts,
            sql=self.state.sql,
            on_called=self.state.count_call,
            recall=self.generation.recall,
            tasks=self.state.tasks,
            task_search=self.generation.tasks,
            on_thread_change=self.state.services.threads.on_change,
            build_prompt=partial(build_prompt, self.state.services),
            program=self.generation.program,
            on_queued=self.daemon.on_queued,
            cancel_run=self.daemon.cancel_run,
            switches=self.state.switches,
            stopping=self.daemon.is_stopping,
        )

    def agent(self, own: OwnAgent, caller: Caller, acting: ActingAgent, webhook: str | None = None) -> AgentContext:
        """Return the context of an agent as it is for the caller. `webhook`: whose delivery woke it. Raises
        ModelUnavailable for a model that cannot be opened: it is not silently a recorder."""
        agent, models = own.agent, self.generation.models
        client, tool_context = models.client(agent.model), self.tool(caller, acting=acting)
        return AgentContext(
            agent=agent,
            settings=own.settings,
            memory=self.generation.memories.of(agent.name, webhook),
            services=self.state.services,
            client=client,
            summarizer=client if agent.summarizer.model is None else models.client(agent.summarizer.model),
            budgets=self.state.budgets,
            tool_context=tool_context,
            seconds=self.state.settings.run_timeout.total_seconds(),
            tools=self.generation.tools(),
            confirm_seconds=self.state.settings.confirm_timeout.total_seconds(),
        )

    def _declared_blocks(self, agent: str) -> Sequence[DeclaredBlock]:
        declared = self.generation.program.agents.get(agent)
        return () if declared is None else declared_blocks(declared)

    def _public_url(self, path: str) -> str:
        """Return the URL at which senders reach `path`."""
        base = (
            self.state.settings.public_url
            or f"http://{self.daemon.addresses.get('public', self.state.settings.listen)}"
        )
        return f"{base.rstrip('/')}{path}"

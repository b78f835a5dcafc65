"""Contexts of operations, tools and agents: the open state of the root, and one generation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
from runtime.tools.context import ActingAgent, Context, no_progress
from runtime.tools.daemon_hooks import DaemonHooks


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
            daemon=self.daemon,
            acting=acting,
            progress=progress,
            declared_blocks=self._declared_blocks,
            limits=self.state.limits,
            sql=self.state.sql,
            on_called=self.state.count_call,
            recall=self.generation.recall,
            tasks=self.state.tasks,
            task_search=self.generation.tasks,
            on_thread_change=self.state.services.threads.on_change,
            build_prompt=partial(build_prompt, self.state.services),
            program=self.generation.program,
            switches=self.state.switches,
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

"""The block `agent NAME`: an agent and its settings."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from dslc.blocks.block import Block, GroupModel
from dslc.blocks.values.types import As, Name, Tool
from dslc.blocks.variant import Variant


class AgentContext(GroupModel):
    """Size of the agent's context."""

    max_tokens: int | None = Field(
        default=None, ge=1, description="Tokens of context; the default is that of the model.", examples=[100_000]
    )
    compaction_threshold: float | None = Field(
        default=None,
        ge=0.1,
        le=1,
        description="Share of the context that may be used before older parts are summarized.",
        examples=[0.8],
    )


class Agent(Block):
    """An agent, which remembers the deliveries it receives.

    Every agent is a recorder: it writes each delivery to its memory. Language models are not run yet: the settings
    `model`, `tools`, `max_steps` and `context` are checked but have no effect.

    An agent that a webhook names need not be declared: it then records with the defaults below, and the checker warns
    in case the name is misspelt.

    ```symbiont
    agent code-review-agent {
        memory      agent-memory
        instruction "You review pull requests and remember what the team prefers."
    }

    memory agent-memory {}
    ```
    """

    memory: Annotated[Name | None, As("reference", block="memory")] = Field(
        default=None,
        description="The memory of the agent; by default the only one, or the one called `default`.",
        examples=["agent-memory"],
    )
    model: Annotated[Variant | None, As("variant", family="model")] = Field(
        default=None,
        description="The language model, with its own options. Has no effect yet: every agent is a recorder.",
        examples=["ollama"],
    )
    instruction: str = Field(
        default="",
        description="The instruction for every run.",
        examples=["Remember what the team prefers."],
    )
    tools: tuple[Tool, ...] = Field(
        default=(),
        description='The tools the agent may use: names, and patterns such as `"memory_*"`. Has no effect yet.',
    )
    max_steps: int = Field(
        default=10,
        ge=1,
        le=1000,
        description="Maximum number of steps of a run. Has no effect yet.",
    )
    context: AgentContext = Field(
        default=AgentContext(), description="The size of the agent's context. Has no effect yet."
    )
    enabled: bool = Field(
        default=True,
        description="Runs the agent. Deliveries for a disabled agent are stored, and can be redelivered later.",
        examples=[False],
    )

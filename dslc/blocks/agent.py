"""The block `agent NAME`: who is woken and what it does."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from dslc.blocks.block import Block, Group
from dslc.blocks.choice import Choice
from dslc.blocks.values.types import As, Name, Tool


class Context(Group):
    """How much the agent reads at once."""

    max_tokens: int | None = Field(
        default=None, ge=1, description="Tokens of context; the model's own when absent.", examples=[100_000]
    )
    compaction_threshold: float | None = Field(
        default=None,
        ge=0.1,
        le=1,
        description="Share of the context that may fill before older parts are summed up.",
        examples=[0.8],
    )


class Agent(Block):
    """Who is woken: it remembers what arrives.

    It is a recorder, which writes every delivery into its memory. Nothing runs a language model yet: what an agent says
    of its model, tools, steps and context is checked, and has no effect.

    An agent that a webhook names need not be declared: then it records with the defaults below, and the checker warns
    in case the name was mistyped.

    ```symbiont
    agent code-review-agent {
        memory      agent-memory
        instruction "You review pull requests and remember what the team prefers."
    }

    memory agent-memory {}
    ```
    """

    memory: Annotated[Name | None, As("reference", block="memory")] = Field(
        default=None, description="The memory it uses; the only or default one when absent.", examples=["agent-memory"]
    )
    model: Annotated[Choice | None, As("variant", family="model")] = Field(
        default=None,
        description="The language model, with its own options. Without effect until something runs a model: every "
        "agent is a recorder.",
        examples=["ollama"],
    )
    instruction: str = Field(
        default="",
        description="What it is told before every run.",
        examples=["Remember what the team prefers."],
    )
    tools: tuple[Tool, ...] = Field(
        default=(),
        description='The tools it may use: names, and patterns such as `"memory_*"`. Without effect until something '
        "runs a model.",
    )
    max_steps: int = Field(
        default=10,
        ge=1,
        le=1000,
        description="Steps of one run at most. Without effect until something runs a model.",
    )
    context: Context = Field(
        default=Context(), description="How much it reads at once. Without effect until something runs a model."
    )
    enabled: bool = Field(
        default=True,
        description="Whether it runs. What arrives for a disabled agent is kept, and can be sent again later.",
        examples=[False],
    )

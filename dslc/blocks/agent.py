"""The block `agent NAME`: who is woken and what it does."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from dslc.blocks.block import Block, Group
from dslc.blocks.choice import Choice
from dslc.blocks.values import As, Name


class Context(Group):
    """How much the agent reads at once."""

    max_tokens: int | None = Field(default=None, ge=1, description="Tokens of context; the model's own when absent.")
    compaction_threshold: float | None = Field(
        default=None, ge=0.1, le=1, description="Share of the context that may fill before older parts are summed up."
    )


class Agent(Block):
    """Reads what arrives, acts with its tools and remembers. Without a model it records every delivery."""

    memory: Annotated[Name | None, As("reference", block="memory")] = Field(
        default=None, description="The memory it uses; the only or default one when absent."
    )
    model: Annotated[Choice | None, As("variant", family="model", open=True)] = Field(
        default=None, description="The language model, with its own options; none makes it a recorder."
    )
    instruction: str = Field(default="", description="What it is told before every run.")
    tools: tuple[Annotated[Name, As("name", family="tool")], ...] = Field(
        default=(), description="The tools it may use."
    )
    max_steps: int = Field(default=10, ge=1, le=1000, description="Steps of one run at most.")
    context: Context = Field(default=Context(), description="How much it reads at once.")
    enabled: bool = Field(default=True, description="Whether it runs; deliveries wait for a disabled agent.")

"""The block `agent NAME`: an agent and its settings."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dslc.blocks.block import Block, GroupModel, NamedGroupModel
from dslc.blocks.values.types import As, ContextTokens, Guarded, Name, Tool
from dslc.blocks.variant import Variant

_Model = Annotated[Variant | None, As("variant", family="model", block="model")]

UserSetting = Literal["enabled", "model", "max_tokens", "compaction_threshold", "system_prompt", "preferences"]
"""A setting that a user can give an agent, in place of the program's."""

CompactionThreshold = Annotated[float, Field(ge=0.1, le=1)]
"""Share of a context that is used before older parts are summarized."""


class AgentContext(GroupModel):
    """Size of the agent's context."""

    max_tokens: ContextTokens = Field(
        default=100_000, description="Maximum tokens of context; never more than the window of the model."
    )
    reply_tokens: int | None = Field(
        default=None,
        ge=16,
        description="Tokens of the context that are reserved for a reply; the default is that of the model. Less than "
        "`max_tokens`, and than the window of the model.",
        examples=[2048],
    )
    compaction_threshold: CompactionThreshold = Field(
        default=0.8, description="Share of the context that may be used before older parts are summarized."
    )

    @model_validator(mode="after")
    def _has_room_for_a_request(self) -> Self:
        if self.reply_tokens is not None and self.reply_tokens >= self.max_tokens:
            raise ValueError("`reply_tokens` is not smaller than `max_tokens`")
        return self


class AgentSummarizer(GroupModel):
    """How older messages are summarized when the context is full."""

    model: _Model = Field(
        default=None,
        description="The language model for these summaries: a service with its own options, or the name of a `model` "
        "block. The default is the model of the agent.",
        examples=["ollama"],
    )
    max_words: int = Field(default=100, ge=1, le=5000, description="Maximum number of words of a summary.")


class AgentLimits(GroupModel):
    """What the agent may use, over all its users. Days and hours are those of UTC."""

    tokens_per_day: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000_000_000,
        description="Maximum tokens of requests and replies per day, summaries and corrections included; without it, "
        "no limit.",
        examples=[200_000],
    )
    cost_per_day: float | None = Field(
        default=None,
        ge=0.0001,
        le=1_000_000,
        description="Maximum cost per day in US dollars; without it, no limit. It needs `input_price` and "
        "`output_price` in the block of the model, of its fallbacks and of the model of the summarizer.",
        examples=[2.5],
    )
    runs_per_hour: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="Maximum number of runs that begin per hour; without it, no limit.",
        examples=[60],
    )
    at_limit: Literal["wait", "refuse"] | None = Field(
        default=None,
        description="What happens to a run for which the limits of the agent or of its user leave nothing: it waits "
        "for the next day or hour, or it is refused. By default messages of people are refused, and deliveries wait.",
        examples=["wait"],
    )


class CoreBlock(NamedGroupModel):
    """A part of the memory that is always in the context of the agent."""

    description: str = Field(
        default="",
        max_length=1000,
        description="What the block is for, as the agent reads it.",
        examples=["Decisions that hold for all projects."],
    )
    value: str = Field(
        default="",
        description="Its first value. A later edit of the program does not change a block that exists.",
        examples=["Reply in English."],
    )
    char_limit: int = Field(default=20_000, ge=1, le=1_000_000, description="Maximum number of characters of a value.")
    read_only: bool = Field(
        default=False, description="The agent cannot change the block; a person can.", examples=[True]
    )
    shared: bool = Field(
        default=False,
        description="The block belongs to all agents of the user, instead of this one alone.",
        examples=[True],
    )
    deliveries: bool | None = Field(
        default=None,
        description="Runs that a delivery woke may change the block; each line that they write says so. By default "
        "they may, but `human` only if it is that of a subject. They never change `persona`.",
        examples=[False],
    )

    @model_validator(mode="after")
    def _is_not_about_the_agent(self) -> Self:
        if self.name == "persona" and self.deliveries:
            raise ValueError("`deliveries` is true, but runs that a delivery woke never change `persona`")
        return self

    @model_validator(mode="after")
    def _value_fits(self) -> Self:
        if len(self.value) > self.char_limit:
            raise ValueError("`value` is longer than `char_limit`")
        return self


class Agent(Block):
    """An agent, which remembers the deliveries it receives.

    With a `model` it reads each delivery, thinks, calls tools, answers, and decides what to remember; a person talks to
    it by `symbi chat`. Without one it is a recorder: it writes each delivery to its memory.

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
    model: _Model = Field(
        default=None,
        description="The language model: a service with its own options, or the name of a `model` block. Without "
        "one, the agent records what it receives.",
        examples=["ollama"],
    )
    instruction: str = Field(
        default="", description="The instruction for every run.", examples=["Remember what the team prefers."]
    )
    tools: tuple[Tool, ...] = Field(
        default=(),
        description='The tools the agent may use: names, and patterns such as `"memory_*"`. By default its memory '
        "tools. A destructive tool must be named in full.",
    )
    confirm: tuple[Guarded, ...] = Field(
        default=(),
        description="The tools whose calls wait until a person approves them: names, and patterns such as "
        '`"memory_*"`. Patterns match destructive tools too, and `"*"` also the tools of MCP servers.',
    )
    tool_calling: Literal["json", "native"] = Field(
        default="json",
        description="How the model calls tools: `json` as a part of its reply, `native` by the interface of the "
        "service.",
        examples=["native"],
    )
    max_steps: int = Field(default=10, ge=1, le=1000, description="Maximum number of steps of a run.")
    thread: Annotated[Variant, As("variant", family="thread")] = Field(
        default=Variant(name="one"), description="The thread that a delivery is added to.", examples=["keyed"]
    )
    context: AgentContext = Field(default=AgentContext(), description="The size of the agent's context.")
    summarizer: AgentSummarizer = Field(default=AgentSummarizer(), description="How older messages are summarized.")
    limits: AgentLimits = Field(default=AgentLimits(), description="Limits of the agent.")
    block: tuple[CoreBlock, ...] = Field(
        default=(),
        description="A part of the memory that is always in the agent's context, beside `persona` and `human`, which "
        "every agent has.",
    )
    enabled: bool = Field(
        default=True,
        description="Runs the agent. Deliveries for a disabled agent are stored, and can be redelivered later.",
        examples=[False],
    )

    main: bool = Field(
        default=False,
        description="The agent with which a user talks who names none; by default the only one with a model. One agent "
        "of the program can be the main one.",
        examples=[True],
    )
    lock: tuple[UserSetting, ...] = Field(
        default=(),
        description="Settings that users cannot change for themselves; `system_prompt` is the `instruction`.",
        examples=[("model", "system_prompt")],
    )

    @model_validator(mode="after")
    def _blocks_have_names_of_their_own(self) -> Self:
        names = [block.name for block in self.block]
        if len(set(names)) < len(names):
            raise ValueError("two settings `block` have one name")
        return self

"""The table of thread modes: which thread a delivery for an agent is added to (`thread` in the block of an agent)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from pydantic import Field

from dslc.blocks.agent import Agent
from dslc.blocks.block import GroupModel
from dslc.blocks.values.types import Duration, JsonPath
from dslc.blocks.variant import Variant
from dslc.blocks.webhook import Webhook
from dslc.program import Program
from runtime.extension_table import table_of

_RETENTION: Final = "Deletes a thread this long after its last message; by default threads are kept."


class ThreadOptions(GroupModel):
    """Options of every mode."""

    retention: Duration | None = Field(default=None, description=_RETENTION, examples=[timedelta(days=90)])


class KeyedOptions(ThreadOptions):
    """Options of threads by a value of the payload."""

    json_path: JsonPath = Field(
        description="The value in the payload that names the thread, its subject (JSONPath, RFC 9535). A delivery "
        "without such a value gets a thread of its own.",
        examples=["$.pull_request.number"],
    )
    separate_memory: bool = Field(
        default=True,
        description="Each subject has its own `human` block, memories, tasks and entries of the key-value store, and "
        "the agent finds only those of the subject it works for. With `false`, what it stores belongs to no "
        "subject, and it finds everything.",
        examples=[False],
    )
    shared_data: bool = Field(
        default=False,
        description="The agent may have tools on SQL tables, which all subjects share: what a run stores there for one "
        "of them, a run for another one reads.",
        examples=[True],
    )


@dataclass(frozen=True)
class ThreadMode:
    """A mode, with the model of its options."""

    name: str
    title: str
    doc: str
    options: type[ThreadOptions]


MODES = table_of(
    "thread mode",
    [
        ThreadMode(
            "one",
            "One thread",
            "All deliveries of a user are added to the main thread of the agent.",
            ThreadOptions,
        ),
        ThreadMode(
            "delivery",
            "A thread for each delivery",
            "Each delivery begins a new thread.",
            ThreadOptions,
        ),
        ThreadMode(
            "keyed",
            "A thread for each subject",
            "Deliveries with the same value in their payload share a thread.",
            KeyedOptions,
        ),
    ],
)
"""Every mode, by its name in a program."""


def thread_options(choice: Variant) -> ThreadOptions:
    """Return the options of the mode that an agent names: `KeyedOptions` for `keyed`. Raises KeyError for an unknown
    mode, and pydantic's ValidationError for invalid options; a compiled program has neither."""
    return MODES[choice.name].options.model_validate(choice.options)


def subject_path(agent: Agent | None, webhook: Webhook | None) -> str | None:
    """Return the JSONPath at which a delivery of a webhook names its subject; None if the threads of its agent have
    none."""
    options = None if agent is None else thread_options(agent.thread)
    if not isinstance(options, KeyedOptions):
        return None
    return (webhook is not None and webhook.subject.json_path) or options.json_path


def retentions(program: Program) -> dict[str, float]:
    """Return the seconds for which threads are kept, of the agents whose threads are not kept forever."""
    found = {name: thread_options(agent.thread).retention for name, agent in program.agents.items()}
    return {name: retention.total_seconds() for name, retention in found.items() if retention is not None}

"""The block `webhook NAME`: an address that takes signed deliveries and hands them to an agent."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from dslc.blocks.block import Block, Group
from dslc.blocks.choice import Choice
from dslc.blocks.filter import Filter
from dslc.blocks.values.types import (
    SINGLE,
    As,
    Event,
    Name,
    Network,
    SecretReference,
    Size,
    Url,
    UrlPath,
)


class Limits(Group):
    """What one webhook takes at most."""

    body: Size = Field(default=262_144, ge=1, description="The largest body that is read.")
    per_minute: int | None = Field(
        default=None, ge=1, description="Deliveries accepted a minute; no limit when absent.", examples=[60]
    )


class Webhook(Block):
    """An address that verifies what arrives and hands it to an agent.

    A webhook has a secret, or says `insecure_allow_unverified true`. One whose secret cannot be resolved when the
    program is loaded is not mounted; the others are.

    ```symbiont
    webhook github-events {
        path     "/hooks/github"
        provider github
        secret   "secret://env/GITHUB_SECRET"
        agent    code-review-agent
        filter {
            json_path "$.action"
            equals    "opened"
        }
    }

    agent code-review-agent {}
    ```
    """

    path: UrlPath = Field(description="The URL path it answers on, matched exactly; unique in the program.")
    provider: Annotated[Choice, As("variant", family="provider")] = Field(
        default=Choice(name="custom"),
        description="Who signs and how: a preset, or `custom` with its options.",
        examples=["github"],
    )
    secret: Annotated[tuple[SecretReference, ...], SINGLE] = Field(
        default=(),
        repr=False,
        description="Where the signing secret is kept; a list while it is being rotated. Needed unless "
        "`insecure_allow_unverified true` stands in its place.",
    )
    agent: Annotated[Name | None, As("reference", block="agent")] = Field(
        default=None,
        description="The agent that is woken. Without one, a webhook that names a memory writes there under its own "
        "name, and one that names neither only keeps its deliveries.",
        examples=["code-review-agent"],
    )
    memory: Annotated[Name | None, As("reference", block="memory")] = Field(
        default=None,
        description="The memory the agent uses for these deliveries, instead of its own.",
        examples=["agent-memory"],
    )
    event: Annotated[tuple[Event, ...], SINGLE] = Field(
        default=(),
        min_length=1,
        description="Only deliveries of this event, or of one of these, are run: the event's name as the sender says "
        "it.",
        examples=[("pull_request",)],
    )
    filter: tuple[Filter, ...] = Field(default=(), description="Only deliveries that every filter matches are run.")
    limits: Limits = Field(default=Limits(), description="What it takes at most.")
    allow_from: Annotated[tuple[Network, ...], SINGLE] = Field(
        default=(),
        min_length=1,
        description="Only these addresses and networks may send; everybody when absent.",
        examples=[("192.0.2.0/24", "2001:db8::/32")],
    )
    concurrency: int | None = Field(
        default=None,
        ge=1,
        description="Deliveries that are run at the same time; any number when absent. With 1 they are run one after "
        "the other, in the order in which they came.",
        examples=[4],
    )
    public_url: Url | None = Field(
        default=None, description="The URL senders call, where a proxy changes it and the provider signs it."
    )
    keep_body: bool = Field(
        default=True,
        description="Keep the body of accepted deliveries, sealed, for a bounded time.",
        examples=[False],
    )
    insecure_allow_unverified: bool = Field(
        default=False,
        description="Accept requests that nobody signed; a `secret` excludes it. For tests only.",
        examples=[True],
    )

    @property
    def wakes(self) -> str | None:
        """The agent that its deliveries are for: the one it names, else, where it names a memory, one of its own name,
        which records them there. None: they are only kept."""
        return self.agent or (self.name if self.memory else None)

"""The block `webhook NAME`: an address that takes signed deliveries and hands them to an agent."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from dslc.blocks.block import Block, Group
from dslc.blocks.choice import Choice
from dslc.blocks.values import (
    SINGLE,
    As,
    Event,
    JsonPath,
    Name,
    Network,
    Relation,
    SecretReference,
    Size,
    Url,
    UrlPath,
)


class Filter(Group):
    """What a delivery's body must say to be wanted. Any one of several nodes that the path finds may match."""

    json_path: JsonPath = Field(description="Where to look in the body (JSONPath, RFC 9535).")
    equals: Annotated[str | int | float | bool | None, As("scalar"), Relation(one_of=("equals", "contains"))] = Field(
        default=None, description="The node is this value."
    )
    contains: str | None = Field(
        default=None, description="The node is a text or list that holds this text.", examples=["invoice."]
    )

    @model_validator(mode="after")
    def _compares(self) -> Filter:
        if self.equals is None and self.contains is None:
            raise ValueError("a filter needs `equals` or `contains`")
        return self


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
        description="The agent that is woken; a recorder of the webhook's own name when absent.",
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

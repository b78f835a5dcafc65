"""The block `webhook NAME`: a URL path that receives signed deliveries for an agent."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from dslc.blocks.block import Block, GroupModel
from dslc.blocks.filter import WebhookFilter
from dslc.blocks.values.types import SINGLE, As, Event, JsonPath, Name, Network, SecretReference, Size, Url, UrlPath
from dslc.blocks.variant import Variant


class WebhookLimits(GroupModel):
    """Limits of one webhook."""

    body: Size | None = Field(
        default=None,
        ge=1,
        description="Maximum size of a body; without it, the largest that the provider sends.",
        examples=[1_048_576],
    )
    per_minute: int | None = Field(
        default=None,
        ge=1,
        description="Maximum number of deliveries accepted per minute; without it, no limit.",
        examples=[60],
    )


class WebhookSubject(GroupModel):
    """Which value of a payload is the subject, for an agent with `thread keyed`."""

    json_path: JsonPath | None = Field(
        default=None,
        description="The value in the payload that names the thread, in place of the one that the agent names "
        "(JSONPath, RFC 9535).",
        examples=["$.data.object.customer"],
    )


class Webhook(Block):
    """A URL path that verifies requests and runs an agent on them.

    A webhook has a secret, or sets `insecure_allow_unverified true`. If its secret cannot be resolved when the program
    is loaded, it is not mounted; other webhooks are not affected.

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

    path: UrlPath = Field(description="The URL path of the webhook, matched exactly; unique in the program.")
    provider: Annotated[Variant, As("variant", family="provider")] = Field(
        default=Variant(name="custom"),
        description="The sender and its signature: a known provider, or `custom` with its options.",
        examples=["github"],
    )
    secret: Annotated[tuple[SecretReference, ...], SINGLE] = Field(
        default=(),
        repr=False,
        description="A reference to the signing secret; a list during a secret rotation. Required, unless the "
        "provider fetches the keys of the sender or `insecure_allow_unverified true` is set.",
    )
    agent: Annotated[Name | None, As("reference", block="agent")] = Field(
        default=None,
        description="The agent to run. Without one, a webhook with a memory writes to it under its own name, "
        "and a webhook with neither only stores its deliveries.",
        examples=["code-review-agent"],
    )
    memory: Annotated[Name | None, As("reference", block="memory")] = Field(
        default=None,
        description="The memory the agent uses for these deliveries, instead of its own.",
        examples=["agent-memory"],
    )
    subject: WebhookSubject = Field(
        default=WebhookSubject(),
        description="Where deliveries of this webhook name the subject of a keyed thread; by default where the agent "
        "says.",
    )
    event: Annotated[tuple[Event, ...], SINGLE] = Field(
        default=(),
        min_length=1,
        description="Only deliveries of this event, or of one of these, are run: the name of the event as the "
        "sender writes it.",
        examples=[("pull_request",)],
    )
    filter: tuple[WebhookFilter, ...] = Field(
        default=(), description="Only deliveries that every filter matches are run."
    )
    limits: WebhookLimits = Field(default=WebhookLimits(), description="Limits of the webhook.")
    allow_from: Annotated[tuple[Network, ...], SINGLE] = Field(
        default=(),
        min_length=1,
        description="Only these addresses and networks may send; without it, all.",
        examples=[("192.0.2.0/24", "2001:db8::/32")],
    )
    concurrency: int | None = Field(
        default=None,
        ge=1,
        description="Maximum number of simultaneous runs; without it, no limit. With 1, deliveries run one "
        "after the other, in the order of arrival.",
        examples=[4],
    )
    public_url: Url | None = Field(default=None, description="The URL that senders call, for providers that sign it.")
    keep_body: bool = Field(
        default=True,
        description="Store the bodies of accepted deliveries, encrypted, for a limited time.",
        examples=[False],
    )
    insecure_allow_unverified: bool = Field(
        default=False,
        description="Accept unsigned requests, for tests only. Cannot be combined with `secret`.",
        examples=[True],
    )

    @property
    def wakes(self) -> str | None:
        """Agent that its deliveries are for: the one it names, else, if it names a memory, one with the webhook's name,
        which records them there. None if deliveries are only stored."""
        return self.agent or (self.name if self.memory else None)

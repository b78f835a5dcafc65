"""The agent without a model: it writes each delivery into its memory's daily log."""

from __future__ import annotations

from dslc.blocks import Agent
from runtime.clock import utc
from runtime.memory import Item, Store
from runtime.threads import RunLog
from runtime.webhooks import PROVIDERS, describe
from runtime.webhooks.delivery import Work


async def record(agent: Agent, work: Work, log: RunLog, store: Store) -> None:
    """Append one entry for `work` to today's log: a title from provider and event, the payload's facts as bullets.

    The entry carries the delivery's id, so that a second try after a crash finds it and writes nothing.
    """
    item = entry(agent, work)

    async def act() -> object:
        await store.append([item])
        return {"memory_id": item.memory_id}

    await log.step("remember", {"memory_id": item.memory_id, "agent": agent.name}, act, repeatable=True)


def entry(agent: Agent, work: Work) -> Item:
    """The log entry for `work`: its first line is the title, then one bullet a fact."""
    provider = PROVIDERS[work.provider]
    payload = provider.payload(work.body, work.content_type).value_or_none()
    summary = describe(provider, work.event, payload)
    lines = [summary.title, *(f"- {label}: {value}" for label, value in summary.facts)]
    return Item.new(
        agent_id=agent.name,
        memory_type="episodic",
        timestamp=utc(work.received_at / 1000),
        text="\n".join(lines),
        source_uri=f"symbiont:delivery/{work.delivery_id}",
    )

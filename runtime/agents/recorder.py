"""The recorder, an agent without a model: it writes each delivery into the daily log of its memory."""

from __future__ import annotations

import asyncio

from dslc.blocks.agent import Agent
from runtime.agents.delivery_summary import describe
from runtime.clock import utc
from runtime.memory.item import Item, Provenance, delivery_uri
from runtime.memory.store import Store
from runtime.threads.run_log import RunLog
from runtime.webhooks.deliveries.delivery import ClaimedDelivery
from runtime.webhooks.providers import find_provider
from runtime.webhooks.request.payload import OFF_THE_LOOP


async def record(delivery: ClaimedDelivery, log: RunLog, agent: Agent, store: Store) -> None:
    """Append one entry for `delivery` to today's log: a title from provider and event, the payload's facts as bullets.

    The entry carries the delivery's id, so that a second try after a crash finds it and writes nothing.
    """
    small = len(delivery.body) <= OFF_THE_LOOP  # in a thread: it decodes the body
    run = log.run_id
    item = entry(agent, delivery, run) if small else await asyncio.to_thread(entry, agent, delivery, run)

    async def remember() -> list[str]:
        return [stored.memory_id for stored in await store.append([item])]

    await log.step("remember", {"chunk_hash": item.chunk_hash}, remember, repeatable=True)


def entry(agent: Agent, delivery: ClaimedDelivery, run_id: str) -> Item:
    """Return the log entry of a run for `delivery`: its first line is the title, then one bullet for each fact."""
    payload = find_provider(delivery.provider).payload(delivery.body, delivery.content_type)
    summary = describe(delivery.provider, delivery.event or delivery.webhook, payload.value_or_none())
    facts = summary.facts or [("note", problem) for problem in (payload.problem(),) if problem]
    return Item(
        agent_id=agent.name,
        user_id=delivery.user_id,
        memory_type="episodic",
        timestamp=utc(delivery.received_at / 1000),
        text="\n".join((summary.title, *(f"- {_plain(label)}: {value}" for label, value in facts))),
        source_uri=delivery_uri(delivery.delivery_id),
        provenance=Provenance(run_id=run_id, said_by="payload"),
    )


def _plain(label: str) -> str:
    """Escape a label that looks like a long-term mark (`[fact]`): labels are keys of the payload, chosen by the
    sender."""
    return f"\\{label}" if label.startswith("[") else label

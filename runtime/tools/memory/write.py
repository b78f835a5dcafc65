"""The tool that writes one item to an agent's memory."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.clock import utc
from runtime.errors import UsageError
from runtime.memory.collection.options import PROJECT
from runtime.memory.item import RESERVED, Item, Provenance
from runtime.memory.open_memory import OpenMemory
from runtime.memory.records.gates import GateOpen
from runtime.tools.context import Context
from runtime.tools.memory import parameters as param
from runtime.tools.memory.access import asked_user, home_memory, kept_item, own_subject, sees_all, with_origin
from runtime.tools.memory.results import WrittenItem
from runtime.tools.tool import LARGEST_ITEMS, tool


@tool(
    "write",
    stores=True,
    largest=LARGEST_ITEMS,
    example={"agent": "reviewer", "text": "The API takes 100 requests a minute", "tags": ["api"]},
)
async def memory_write(
    context: Context,
    agent: param.Agent,
    text: param.Text,
    *,
    type: param.Written = "fact",  # noqa: A002 - the word of the design
    tags: param.Tags = [],  # noqa: B006 - never changed
    project: param.Project = None,
    source_uri: param.Source = None,
    author: param.Author = None,
    session_id: param.SessionId = None,
    task: param.Task = None,
    confidence: param.Confidence = None,
    risk_tier: param.Risk = None,
    git_commit: param.Commit = None,
    sources: param.Evidence = [],  # noqa: B006
    gates: param.Gates = {},  # noqa: B006
    user: param.Owner = None,
    subject: param.OwnSubject = None,
    memory: param.MemoryToWrite = None,
    dry_run: param.DryRun = False,
) -> WrittenItem:
    """Write an item; secrets in it are redacted.

    When the call returns, the item is on disk. A fact, pattern or procedure that exists already is not written again.
    """
    if not text.strip():
        raise UsageError("the text is empty", hint="there is nothing to store")
    if source_uri is not None and source_uri.startswith(RESERVED):
        raise UsageError(f"source_uri: values that begin with {RESERVED} are reserved for the daemon")
    where = await home_memory(context, agent, memory)
    kind, more = param.TYPES[type]
    # In a collection every item written by hand belongs to a project.
    of_none = None if where.collection is None else PROJECT
    item = Item(
        project_id=project or of_none,
        agent_id=agent,
        user_id=await asked_user(context, user) or context.caller.user_id,
        memory_type=kind,
        timestamp=utc(context.clock.now()),
        source_uri=source_uri,
        tags=tuple(more.union(tags)),
        text=text,
        provenance=with_origin(
            context,
            Provenance(
                author=author,
                session_id=session_id,
                task=task,
                confidence=confidence,
                risk_tier=risk_tier,
                git_commit=git_commit,
                sources=tuple(sources),
            ),
            "person",
        ),
        subject=own_subject(context, subject),
    )
    if gates and "gates" not in where.store.capabilities:
        raise UsageError(f"the memory {where.name} has no gates", hint=f"leave out {', '.join(sorted(gates))}")
    check_sources(context, where, sources)
    if dry_run:
        try:
            (record,), refused = await where.store.preview([item], gates=gates), None
        except GateOpen as error:
            if not error.records:
                raise
            (record,), refused = error.records, error.line()
        return WrittenItem(outcome="dry_run", memory=where.name, item=None, record=record, refused=refused)
    written = await where.store.append([item], gates=gates)
    if not written:
        return WrittenItem(outcome="there", memory=where.name, item=None, record=None)
    return WrittenItem(outcome="stored", memory=where.name, item=kept_item(written[0], where), record=None)


def check_sources(context: Context, where: OpenMemory, sources: Sequence[str]) -> None:
    """Raise UsageError for a source that would make a gate check for files on this machine, and so reveal which
    exist."""
    named = [source for source in sources if source.startswith("/")]
    if named and "gates" in where.store.capabilities and not sees_all(context):
        raise UsageError(f"sources: {named[0]} is a file of the daemon's machine", hint="this requires the scope admin")

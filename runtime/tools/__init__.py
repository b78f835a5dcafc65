"""TABLE of tools: what agents, MCP, HTTP and commands can have done, one typed function each."""

from __future__ import annotations

from runtime.rows import by_name
from runtime.tools import (
    collection_items,
    collection_overview,
    collection_push,
    collection_search,
    memory,
    memory_export,
    memory_import,
    memory_items,
    memory_move,
    memory_upkeep,
    memory_write,
    summarize,
    webhooks,
)
from runtime.tools.tool import Tool

TOOLS = by_name(
    "tool",
    [
        Tool(
            webhooks.webhook_create,
            "write",
            shows_secret=True,
            indexes=False,
            example={"title": "Nightly build", "agent": None},
        ),
        Tool(webhooks.webhook_list, "read", indexes=False, example={"limit": 20}),
        Tool(
            webhooks.webhook_get,
            "read",
            indexes=False,
            example={"webhook_id": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60"},
        ),
        Tool(
            webhooks.webhook_update,
            "write",
            indexes=False,
            idempotent=True,
            example={"webhook_id": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60", "is_active": False},
        ),
        Tool(
            webhooks.webhook_delete,
            "write",
            indexes=False,
            destructive=True,
            example={"webhook_id": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60"},
        ),
        Tool(
            webhooks.webhook_rotate_secret,
            "write",
            indexes=False,
            shows_secret=True,
            example={"webhook_id": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60", "overlap": "24h"},
        ),
        Tool(
            webhooks.webhook_get_audit_log,
            "read",
            indexes=False,
            example={"webhook_id": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60", "limit": 20},
        ),
        Tool(memory.memory_search, "read", example={"agent": "reviewer", "query": "rate limit", "limit": 5}),
        Tool(
            memory_write.memory_write,
            "write",
            example={"agent": "reviewer", "text": "The API takes 100 requests a minute", "tags": ["api"]},
        ),
        Tool(memory_items.memory_list, "read", example={"agent": "reviewer", "since": "7d", "limit": 20}),
        Tool(memory_items.memory_show, "read", example={"memory_id": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60"}),
        # Not idempotent: in a Markdown memory the next of equal items gets the id of the one that is gone.
        Tool(
            memory_items.memory_edit,
            "write",
            destructive=True,
            example={
                "memory_id": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60",
                "text": "The API takes 200 requests a minute",
            },
        ),
        Tool(
            memory_items.memory_forget,
            "write",
            destructive=True,
            example={"memory_id": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60"},
        ),
        Tool(memory.memory_inspect, "admin", read_only=True, example={"agent": "reviewer", "day": "2026-11-20"}),
        Tool(memory_upkeep.memory_stats, "read", example={"agent": "reviewer"}),
        Tool(memory_upkeep.memory_compact, "admin", idempotent=True, destructive=True, example={"agent": "reviewer"}),
        Tool(memory_upkeep.memory_purge, "admin", destructive=True, example={"agent": "reviewer", "dry_run": True}),
        Tool(memory_upkeep.memory_reindex, "admin", idempotent=True, example={"memory": "notes"}),
        Tool(memory_upkeep.memory_verify, "admin", read_only=True, example={"agent": "reviewer"}),
        Tool(
            memory_move.memory_move,
            "admin",
            idempotent=True,
            example={"source": "notes", "target": "archive", "dry_run": True},
        ),
        Tool(memory_export.memory_export, "read", example={"agent": "reviewer", "limit": 200}),
        Tool(
            memory_import.memory_import,
            "write",
            idempotent=True,
            example={
                "items": [
                    {
                        "agent_id": "reviewer",
                        "memory_type": "semantic",
                        "timestamp": "2026-11-20T08:30:00Z",
                        "text": "The API takes 100 requests a minute",
                    }
                ]
            },
        ),
        Tool(
            collection_push.push,
            "write",
            idempotent=True,
            example={
                "text": "We chose PostgreSQL for the new service.",
                "project_id": "default",
                "memory_type": "episodic",
                "tags": ["architecture", "daily"],
                "source_uri": "file:///home/ada/notes.md",
            },
        ),
        Tool(
            collection_search.search,
            "read",
            example={
                "query_text": "current architecture plan",
                "project_id": "default",
                "memory_type": "episodic",
                "tags": ["architecture"],
                "time_range": {"start": "2026-01-01T00:00:00Z", "end": "2026-12-31T23:59:59Z"},
                "limit": 5,
            },
        ),
        Tool(
            summarize.summarize,
            "write",
            idempotent=True,
            example={
                "project_id": "default",
                "time_range": {"start": "2026-11-01T00:00:00Z", "end": "2026-11-07T23:59:59Z"},
                "tags": ["daily"],
                "limit": 25,
                "strategy": "auto",
                "max_words": 150,
            },
        ),
        Tool(collection_overview.get_collections, "read", name="get-collections", example={}),
        Tool(
            collection_overview.new_collection,
            "write",
            name="new-collection",
            idempotent=True,
            example={"name": "research"},
        ),
        Tool(collection_overview.metrics, "read", example={}),
        Tool(collection_items.get, "read", example={"memory_id": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60"}),
        Tool(
            collection_items.update,
            "write",
            idempotent=True,
            destructive=True,
            example={"memory_id": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60", "tags": ["architecture", "decided"]},
        ),
        Tool(
            collection_items.forget,
            "write",
            idempotent=True,
            destructive=True,
            example={"memory_id": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60"},
        ),
    ],
)

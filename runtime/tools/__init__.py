"""TABLE of tools: operations for agents, MCP, HTTP and commands, one typed function each."""

from __future__ import annotations

from runtime.extension_table import table_of
from runtime.switches import AGENTS
from runtime.tools.agent.blocks import (
    agent_block_edit,
    agent_block_history,
    agent_block_list,
    agent_block_restore,
    agent_block_show,
)
from runtime.tools.agent.chat import agent_chat, agent_run_cancel, agent_run_show
from runtime.tools.agent.config import agent_config_edit, agent_config_show, agent_list
from runtime.tools.agent.events import agent_events
from runtime.tools.agent.memory import memory_append, memory_insert, memory_replace
from runtime.tools.agent.recall import conversation_search
from runtime.tools.approvals.decide import (
    approval_approve,
    approval_deny,
    approval_list,
    approval_show,
    standing_approval_list,
    standing_approval_revoke,
)
from runtime.tools.archival.memory import archival_forget, archival_insert, archival_replace, archival_search
from runtime.tools.collection.items import forget, get, update
from runtime.tools.collection.overview import get_collections, metrics, new_collection
from runtime.tools.collection.push import push
from runtime.tools.collection.search import search
from runtime.tools.collection.summarize import summarize
from runtime.tools.conversations.items import agent_conversation_item_delete, agent_conversation_items
from runtime.tools.conversations.overview import (
    agent_conversation_create,
    agent_conversation_delete,
    agent_conversation_list,
    agent_conversation_show,
)
from runtime.tools.knowledge.context import agent_context
from runtime.tools.knowledge.search import agent_memory_search
from runtime.tools.memory.export_items import memory_export
from runtime.tools.memory.import_items import memory_import
from runtime.tools.memory.items import memory_edit, memory_forget, memory_list, memory_show
from runtime.tools.memory.maintenance import memory_compact, memory_purge, memory_reindex, memory_stats, memory_verify
from runtime.tools.memory.move import memory_move
from runtime.tools.memory.read import memory_inspect, memory_search
from runtime.tools.memory.write import memory_write
from runtime.tools.tool import Tool
from runtime.tools.usage import agent_usage
from runtime.tools.webhooks.manage import (
    webhook_create,
    webhook_delete,
    webhook_get,
    webhook_get_audit_log,
    webhook_list,
    webhook_rotate_secret,
    webhook_update,
)

TOOLS = table_of(
    "tool",
    [
        Tool(
            webhook_create,
            "write",
            indexes=False,
            example={"title": "Nightly build", "agent": None},
        ),
        Tool(webhook_list, "read", indexes=False, example={"limit": 20}),
        Tool(
            webhook_get,
            "read",
            indexes=False,
            example={"webhook_id": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60"},
        ),
        Tool(
            webhook_update,
            "write",
            indexes=False,
            idempotent=True,
            example={"webhook_id": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60", "is_active": False},
        ),
        Tool(
            webhook_delete,
            "write",
            indexes=False,
            destructive=True,
            example={"webhook_id": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60"},
        ),
        Tool(
            webhook_rotate_secret,
            "write",
            indexes=False,
            example={"webhook_id": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60", "overlap": "24h"},
        ),
        Tool(
            webhook_get_audit_log,
            "read",
            indexes=False,
            example={"webhook_id": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60", "limit": 20},
        ),
        Tool(memory_search, "read", example={"agent": "reviewer", "query": "rate limit", "limit": 5}),
        Tool(
            memory_write,
            "write",
            example={"agent": "reviewer", "text": "The API takes 100 requests a minute", "tags": ["api"]},
        ),
        Tool(memory_list, "read", example={"agent": "reviewer", "since": "7d", "limit": 20}),
        Tool(memory_show, "read", example={"memory_id": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60"}),
        # Not idempotent: in a Markdown memory the next of several equal items gets the id of the deleted one.
        Tool(
            memory_edit,
            "write",
            destructive=True,
            example={
                "memory_id": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60",
                "text": "The API takes 200 requests a minute",
            },
        ),
        Tool(
            memory_forget,
            "write",
            destructive=True,
            example={"memory_id": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60"},
        ),
        Tool(memory_inspect, "admin", read_only=True, example={"agent": "reviewer", "day": "2026-11-20"}),
        Tool(memory_stats, "read", example={"agent": "reviewer"}),
        Tool(memory_compact, "admin", idempotent=True, destructive=True, long=True, example={"agent": "reviewer"}),
        Tool(memory_purge, "admin", destructive=True, example={"agent": "reviewer", "dry_run": True}),
        Tool(memory_reindex, "admin", idempotent=True, long=True, example={"memory": "notes"}),
        Tool(memory_verify, "admin", read_only=True, long=True, example={"agent": "reviewer"}),
        Tool(
            memory_move,
            "admin",
            idempotent=True,
            long=True,
            example={"source": "notes", "target": "archive", "dry_run": True},
        ),
        Tool(memory_export, "read", example={"agent": "reviewer", "limit": 200}),
        Tool(
            memory_import,
            "write",
            idempotent=True,
            long=True,
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
            memory_replace,
            "write",
            stopped_by=AGENTS,
            indexes=False,
            keyed=True,
            example={"agent": "assistant", "label": "human", "old": "Lives in Lyon.", "new": "Lives in Oslo."},
        ),
        Tool(
            memory_append,
            "write",
            stopped_by=AGENTS,
            indexes=False,
            keyed=True,
            example={"agent": "assistant", "label": "human", "content": "Prefers short answers."},
        ),
        Tool(
            memory_insert,
            "write",
            stopped_by=AGENTS,
            indexes=False,
            keyed=True,
            example={"agent": "assistant", "label": "human", "content": "Name: Ada", "line": 1},
        ),
        Tool(
            archival_insert,
            "write",
            stopped_by=AGENTS,
            keyed=True,
            example={"agent": "assistant", "content": "Ada lives in Lyon.", "tags": ["home"]},
        ),
        Tool(
            archival_search,
            "read",
            stopped_by=AGENTS,
            example={"agent": "assistant", "query": "where does Ada live", "tags": ["home"], "limit": 5},
        ),
        Tool(
            archival_replace,
            "write",
            stopped_by=AGENTS,
            keyed=True,
            example={
                "agent": "assistant",
                "memory_id": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60",
                "content": "Ada lives in Oslo.",
            },
        ),
        Tool(
            conversation_search,
            "read",
            stopped_by=AGENTS,
            example={"query": "which restaurant did they like", "limit": 5},
        ),
        Tool(agent_usage, "read", stopped_by=AGENTS, indexes=False, example={"by": "model", "since": "7d"}),
        Tool(agent_block_list, "read", stopped_by=AGENTS, indexes=False, example={"agent": "assistant"}),
        Tool(
            agent_block_show,
            "read",
            stopped_by=AGENTS,
            indexes=False,
            example={"agent": "assistant", "label": "human"},
        ),
        Tool(
            agent_block_edit,
            "write",
            stopped_by=AGENTS,
            indexes=False,
            idempotent=True,
            keyed=True,
            example={"agent": "assistant", "label": "human", "value": "Name: Ada\nLives in Oslo.", "version": 3},
        ),
        Tool(
            agent_block_history,
            "read",
            stopped_by=AGENTS,
            indexes=False,
            example={"agent": "assistant", "label": "human", "limit": 10},
        ),
        Tool(
            agent_block_restore,
            "write",
            stopped_by=AGENTS,
            indexes=False,
            idempotent=True,
            keyed=True,
            example={"agent": "assistant", "label": "human", "version": 1},
        ),
        Tool(
            agent_chat,
            "write",
            indexes=False,
            long=True,
            people=True,
            stopped_by=AGENTS,
            example={"input": "What did we decide about the API?", "wait": 30},
        ),
        Tool(
            agent_run_show,
            "read",
            indexes=False,
            people=True,
            stopped_by=AGENTS,
            example={"run": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60"},
        ),
        Tool(
            agent_run_cancel,
            "write",
            indexes=False,
            idempotent=True,
            people=True,
            stopped_by=AGENTS,
            example={"run": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60"},
        ),
        Tool(
            agent_events,
            "read",
            indexes=False,
            people=True,
            stopped_by=AGENTS,
            example={"after": 0, "limit": 100},
        ),
        Tool(
            archival_forget,
            "write",
            stopped_by=AGENTS,
            destructive=True,
            example={"agent": "assistant", "memory_id": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60"},
        ),
        Tool(
            agent_memory_search,
            "read",
            stopped_by=AGENTS,
            people=True,
            example={"agent": "assistant", "query": "where does Ada live", "limit": 5},
        ),
        Tool(
            agent_context,
            "read",
            stopped_by=AGENTS,
            people=True,
            example={"agent": "assistant", "query": "where does Ada live", "tokens": 4000},
        ),
        Tool(agent_list, "read", stopped_by=AGENTS, indexes=False, people=True, example={}),
        Tool(agent_config_show, "read", stopped_by=AGENTS, indexes=False, people=True, example={"agent": "assistant"}),
        Tool(
            agent_config_edit,
            "write",
            stopped_by=AGENTS,
            indexes=False,
            idempotent=True,
            people=True,
            example={
                "agent": "assistant",
                "version": 0,
                "max_tokens": 32_000,
                "preferences": {"language": "Italian"},
            },
        ),
        Tool(
            agent_conversation_list,
            "read",
            stopped_by=AGENTS,
            indexes=False,
            people=True,
            example={"agent": "assistant", "limit": 20},
        ),
        Tool(
            agent_conversation_create,
            "write",
            stopped_by=AGENTS,
            indexes=False,
            people=True,
            example={"agent": "assistant", "title": "Holidays"},
        ),
        Tool(
            agent_conversation_show,
            "read",
            stopped_by=AGENTS,
            indexes=False,
            people=True,
            example={"agent": "assistant", "conversation_id": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60"},
        ),
        Tool(
            agent_conversation_delete,
            "write",
            stopped_by=AGENTS,
            indexes=False,
            destructive=True,
            people=True,
            example={"agent": "assistant", "conversation_id": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60"},
        ),
        Tool(
            agent_conversation_items,
            "read",
            stopped_by=AGENTS,
            indexes=False,
            people=True,
            example={
                "agent": "assistant",
                "conversation_id": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60",
                "limit": 20,
            },
        ),
        Tool(
            agent_conversation_item_delete,
            "write",
            stopped_by=AGENTS,
            indexes=False,
            destructive=True,
            people=True,
            example={
                "agent": "assistant",
                "conversation_id": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60",
                "item_id": "msg_0195e7c05a3c7e108f003c1d2e4b5a60_4_0",
            },
        ),
        Tool(
            push,
            "write",
            idempotent=True,
            long=True,
            example={
                "text": "We chose PostgreSQL for the new service.",
                "project_id": "default",
                "memory_type": "episodic",
                "tags": ["architecture", "daily"],
                "source_uri": "file:///home/ada/notes.md",
            },
        ),
        Tool(
            search,
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
            summarize,
            "write",
            idempotent=True,
            long=True,
            example={
                "project_id": "default",
                "time_range": {"start": "2026-11-01T00:00:00Z", "end": "2026-11-07T23:59:59Z"},
                "tags": ["daily"],
                "limit": 25,
                "strategy": "auto",
                "max_words": 150,
            },
        ),
        Tool(get_collections, "read", name="get-collections", example={}),
        Tool(
            new_collection,
            "write",
            name="new-collection",
            idempotent=True,
            example={"name": "research"},
        ),
        Tool(metrics, "read", example={}),
        Tool(get, "read", example={"memory_id": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60"}),
        Tool(
            update,
            "write",
            idempotent=True,
            destructive=True,
            example={"memory_id": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60", "tags": ["architecture", "decided"]},
        ),
        Tool(
            forget,
            "write",
            idempotent=True,
            destructive=True,
            example={"memory_id": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60"},
        ),
        Tool(
            approval_list,
            "read",
            indexes=False,
            people=True,
            stopped_by=AGENTS,
            example={"agent": "assistant", "limit": 20},
        ),
        Tool(
            approval_show,
            "read",
            indexes=False,
            people=True,
            stopped_by=AGENTS,
            example={"approval_id": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60"},
        ),
        # A client of MCP asks a person before it calls it.
        Tool(
            approval_approve,
            "write",
            indexes=False,
            destructive=True,
            people=True,
            stopped_by=AGENTS,
            example={"approval_id": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60"},
        ),
        Tool(
            approval_deny,
            "write",
            indexes=False,
            people=True,
            stopped_by=AGENTS,
            example={"approval_id": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60", "reason": "Wait for the review."},
        ),
        Tool(
            standing_approval_list,
            "read",
            indexes=False,
            people=True,
            stopped_by=AGENTS,
            example={"agent": "assistant"},
        ),
        Tool(
            standing_approval_revoke,
            "write",
            indexes=False,
            people=True,
            stopped_by=AGENTS,
            example={"standing_id": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60"},
        ),
    ],
)

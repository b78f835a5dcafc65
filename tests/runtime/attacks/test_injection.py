"""Parameters are values: no text in any parameter becomes SQL, a path, a pattern or a command."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from runtime.api.admin.operations import OPERATIONS
from tests.lanes import LONG
from tests.runtime.attacks.wire import files, operate, tables
from tests.runtime.daemon.running import Daemon
from tests.runtime.daemon.v1 import ask

TEXTS = (
    *(
        "' OR '1'='1",
        "'; DROP TABLE deliveries; --",
        '" OR 1=1 --',
        "1) UNION SELECT value FROM secrets --",
        "%",
        "_",
        "*",
    ),
    *(
        "\\",
        "\\'",
        "'||(SELECT hash FROM tokens)||'",
        "?",
        ":name",
        "%(name)s",
        "{name}",
        "{0.__class__}",
        "%s%n",
        "$(id)",
    ),
    *(
        "`id`",
        "| id",
        "; id",
        "\n",
        "\0",
        "a\0b",
        "\ud800",
        "\udfff" * 36,
        "../../../etc/passwd",
        "/etc/passwd",
        "..",
        ".",
    ),
    *(
        "~root",
        "file:///etc/passwd",
        "..\\..\\x",
        "%2e%2e%2f",
        "-rf",
        "--help",
        "\u202e",
        "\x1b[31m",
        "x" * 5000,
        "０",
        "1" * 400,
    ),
    *(
        "github-events' --",
        "owner' --",
        "secret://env/PATH",
        "secret://file//etc/passwd",
        "${jndi:ldap://x}",
        "{{7*7}}",
    ),
)
OTHERS: tuple[object, ...] = (None, True, -1, 0, 10**30, 1.5, [], [[]], {}, {"a": 1}, [None], ["%"], [{}])
PARAMETERS = {
    "agent_block_edit": ("agent", "label", "value", "version", "subject", "user"),
    "agent_block_history": ("agent", "label", "limit", "subject", "user"),
    "agent_block_list": ("agent", "subject", "user"),
    "agent_chat": ("input", "agent", "thread", "subject", "metadata", "wait"),
    "agent_events": ("agent", "after", "limit"),
    "agent_run_cancel": ("run", "agent"),
    "agent_run_show": ("run", "agent"),
    "agent_usage": ("by", "since", "agent", "user"),
    "agent_config_edit": (
        *("agent", "enabled", "model", "max_tokens", "compaction_threshold", "system_prompt", "preferences", "version"),
        "user",
    ),
    "agent_config_show": ("agent", "user"),
    "agent_context": ("query", "thread", "tokens", "agent", "subject"),
    "agent_conversation_create": ("title", "agent", "user"),
    "agent_conversation_delete": ("conversation_id", "force", "agent", "user"),
    "agent_conversation_item_delete": ("conversation_id", "item_id", "agent", "user"),
    "agent_conversation_items": ("conversation_id", "limit", "order", "after", "agent", "user"),
    "agent_conversation_list": ("agent", "subject", "limit", "cursor", "user"),
    "agent_conversation_show": ("conversation_id", "agent", "user"),
    "agent_list": ("user",),
    "agent_memory_schema": (),
    "agent_memory_sql": ("query", "params"),
    "agent_memory_delete": ("key", "tags"),
    "agent_memory_get": ("key", "tags", "limit", "cursor"),
    "agent_memory_kv_export": ("limit", "cursor"),
    "agent_memory_set": ("key", "value", "tags", "expires_at", "if_version"),
    "agent_memory_search": ("query", "tags", "limit", "agent", "subject"),
    "agents.cancel": ("run", "user"),
    "agents.context": ("agent", "thread", "user"),
    "agents.list": ("user",),
    "agents.runs": ("agent", "user", "limit"),
    "agents.show": ("agent", "user"),
    "agents.undo": ("run", "user", "dry_run"),
    "chat.follow": ("run", "thread", "user", "patience", "decides"),
    "chat.open": ("agent", "new", "thread", "user"),
    "chat.send": ("agent", "thread", "message", "user", "patience", "decides"),
    "agent_block_restore": ("agent", "label", "version", "subject", "user"),
    "agent_block_show": ("agent", "label", "subject", "user"),
    "approval_approve": ("approval_id", "always"),
    "approval_deny": ("approval_id", "reason"),
    "approval_list": ("agent", "decided", "limit", "user"),
    "approval_show": ("approval_id",),
    "archival_forget": ("memory_id", "agent", "subject"),
    "archival_insert": ("agent", "content", "tags", "subject"),
    "archival_replace": ("agent", "memory_id", "content", "tags", "subject"),
    "archival_search": ("agent", "query", "tags", "limit", "subject"),
    "conversation_search": ("query", "conversation_id"),
    "deliveries.list": ("name", "status", "since", "until", "limit"),
    "deliveries.redeliver": ("ids", "states", "fresh"),
    "deliveries.select": ("name", "status", "since", "until", "after"),
    "deliveries.show": ("id",),
    "forget": ("memory_id", "collection"),
    "get": ("memory_id", "collection"),
    "get-collections": ("collection",),
    "filters.explain": ("name", "body", "event", "headers"),
    "keys.export": ("file",),
    "keys.exported": ("file", "version"),
    "keys.rotate": ("user", "all", "master", "to"),
    "keys.status": (),
    "mcp_servers.approve": ("server", "identity"),
    "mcp_servers.inspect": ("server", "digest"),
    "mcp_servers.list": ("server",),
    "mcp_servers.login_begin": ("server", "digest", "redirect_uri"),
    "mcp_servers.login_end": ("server", "code", "state", "iss"),
    "mcp_servers.show": ("server",),
    "mcp_servers.test": ("server",),
    "memory_append": ("agent", "label", "content", "subject"),
    "memory_compact": ("agent", "memory"),
    "memory_edit": ("memory_id", "text", "memory", "agent"),
    "memory_export": ("agent", "user", "cursor"),
    "memory_forget": ("memory_id", "memory", "agent"),
    "memory_import": ("items", "agent"),
    "memory_insert": ("agent", "label", "content", "line", "subject"),
    "memory_inspect": ("agent", "day", "memory"),
    "memory_list": ("limit", "agent", "tag", "all_tags", "since", "cursor"),
    "memory_move": ("source", "target", "agent"),
    "memory_purge": ("agent", "memory", "dry_run"),
    "memory_reindex": ("agent", "memory"),
    "memory_replace": ("agent", "label", "old", "new", "subject"),
    "memory_search": ("agent", "query", "tag", "type", "until", "user"),
    "memory_show": ("memory_id", "agent"),
    "memory_stats": ("agent", "memory"),
    "memory_verify": ("agent", "memory"),
    "memory_write": ("agent", "text", "type", "source_uri", "gates", "confidence"),
    "metrics": ("collection",),
    "new-collection": ("name", "dimension"),
    "push": ("text", "items", "project_id", "tags", "source_uri", "replace", "collection"),
    "readiness": ("name",),
    "resource_read": ("uri",),
    "search": ("query_text", "project_id", "memory_type", "tags", "time_range", "source_uri", "collection"),
    "secrets.show": ("name",),
    "standing_approval_list": ("agent", "user"),
    "standing_approval_revoke": ("standing_id",),
    "summarize": ("time_range", "project_id", "tags", "model", "collection"),
    "database.grants": ("pool", "strict"),
    "tables.insert": ("table", "columns", "rows", "user"),
    "tables.page": ("table", "after", "user"),
    "tables.run": ("query", "params", "user"),
    "tables.schema": ("user",),
    "tables.status": (),
    "task_bulk_update": ("task_ids", "status", "tags_add", "tags_remove"),
    "task_complete": ("task_id",),
    "task_create": ("title", "description", "priority", "due_date", "tags"),
    "task_delete": ("task_id",),
    "task_list": ("status", "tags", "limit", "offset"),
    "task_search": ("query", "status", "tags", "limit"),
    "task_show": ("task_id",),
    "task_update": ("task_id", "title", "description", "status", "priority", "due_date", "tags", "clear"),
    "tasks.feed": ("user", "rotate", "off"),
    "tasks.find": ("names", "user"),
    "tasks.read": ("tool", "arguments", "user"),
    "tasks.write": ("tool", "arguments", "user"),
    "tasks.zone": ("user",),
    "threads.delete": ("thread", "force", "user"),
    "threads.list": ("agent", "kind", "limit", "cursor", "user"),
    "threads.messages": ("thread", "after", "before", "limit", "user"),
    "threads.show": ("thread", "user"),
    "tokens.create": ("user", "label", "scopes", "expires", "tools"),
    "tokens.list": ("user",),
    "tokens.revoke": ("id",),
    "update": ("memory_id", "text", "tags", "project_id", "source_uri"),
    "users.add": ("name",),
    "users.list": ("name",),
    "users.remove": ("name", "keep"),
    "users.set": ("name", "tokens_per_day", "cost_per_day", "runs_per_hour", "tier", "storage", "time_zone"),
    "users.show": ("name",),
    "webhooks.list": ("name",),
    "webhooks.log": ("name", "reason", "status", "since"),
    "webhooks.rotate": ("name", "overlap"),
    "webhooks.sample": ("name", "event", "delivery_id"),
    "webhooks.samples": ("name",),
    "webhooks.sign": ("name", "body", "event", "delivery_id"),
    "webhook_create": ("title", "agent", "insecure_allow_unverified"),
    "webhook_delete": ("webhook_id",),
    "webhook_get": ("webhook_id",),
    "webhook_get_audit_log": ("webhook_id", "limit", "cursor"),
    "webhook_list": ("limit", "cursor"),
    "webhook_rotate_secret": ("webhook_id", "overlap"),
    "webhook_update": ("webhook_id", "title", "is_active"),
}
ID = "5f3c1f0e-7c7b-4a55-9a3e-0d6a5f0f7a11"
REAL = {"name": "github-events", "agent": "reviewer", "body": "e30=", "title": "x", "ids": ["0"], "webhook_id": ID} | {
    "query": "x",
    "query_text": "x",
    "text": "x",
    "time_range": {"start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z"},
    "memory_id": ID,
    "task_id": ID,
    "task_ids": [ID],
    "conversation_id": ID,
    "items": [],
    "table": "x",
    "columns": ["x"],
    "rows": [["x"]],
    "key": "x",
    "label": "human",
    "value": "x",
    "content": "x",
    "old": "x",
    "new": "x",
}


def structure(daemon: Daemon) -> dict[str, int]:
    """Return the number of rows of each table that no query may change."""
    changing = {"meta", "attempts", "tokens", "webhooks", "deliveries", "bodies", "runs", "steps", "users", "secrets"}
    changing |= {"items", "item_parts", "blocks", "block_versions", "threads", "kv", "kv_tags", "user_storage"}
    changing |= {"tasks", "task_tags", "task_changes", "task_parts", "task_creations", "task_feeds"}
    return {name: len(rows) for name, rows in tables(daemon).items() if name not in changing}


def test_every_operation_is_attacked() -> None:
    assert set(PARAMETERS) == set(OPERATIONS)


@pytest.mark.parametrize("every", [pytest.param(12, id="some"), pytest.param(1, id="all", marks=LONG)])
@pytest.mark.parametrize("operation", sorted(PARAMETERS))
def test_no_parameter_of_an_operation_is_more_than_a_value(daemon: Daemon, operation: str, every: int) -> None:
    """Try `every` value of the list, each parameter starting at another one, so that together they get all values."""
    before, names, there = structure(daemon), set(tables(daemon)), files(daemon)
    names_here = PARAMETERS[operation]
    real = {name: REAL[name] for name in names_here if name in REAL}
    first = sorted(PARAMETERS).index(operation)
    for number, name in enumerate(names_here, first):
        for value in (*TEXTS, *OTHERS)[number % every :: every]:
            for given in ({**real, name: value}, {**real, name: [value]}):
                answer = operate(daemon, operation, given)
                assert answer.status in {200, 400}, (operation, name, value, answer)
                assert b"root:x:" not in answer.body
    assert set(tables(daemon)) == names
    assert structure(daemon) == before
    assert {path for path in files(daemon) - there if not path.startswith((".symbi", "data"))} == set()


def test_no_parameter_of_v1_is_more_than_a_value(daemon: Daemon, token: str) -> None:
    before = structure(daemon)
    for text in TEXTS:
        raw = quote(text, safe="", errors="surrogatepass")
        for path in (f"/v1/webhooks/{raw}", f"/v1/webhooks/{raw}/audit", f"/v1/webhooks?cursor={raw}", f"/v1/{raw}"):
            assert ask(daemon, token, "GET", path).status in {400, 404, 422}, path
        for path in (f"/v1/memory/{raw}/items", f"/v1/memory/{raw}/search?query=x", f"/v1/memory/items/{raw}"):
            assert ask(daemon, token, "GET", path).status in {400, 404, 422}, path
        for name in ("cursor", "type", "since", "memory", "limit"):
            assert ask(daemon, token, "GET", f"/v1/memory/items?{name}={raw}").status in {400, 404, 422}, name
        assert ask(daemon, token, "GET", f"/v1/memory/reviewer/search?query={raw}").status in {200, 400, 422}
        for name in ("limit", "cursor", raw):
            assert ask(daemon, token, "GET", f"/v1/webhooks?{name}={raw}").status in {400, 414, 422}
        for document in (
            {"title": "x", "agent": text},
            {"title": "x", "agent": "reviewer", text: 1},
            {"overlap": text},
        ):
            raw_body = json.dumps(document).encode()
            assert ask(daemon, token, "POST", "/v1/webhooks", raw_body).status in {400, 422}
    assert structure(daemon) == before


def test_no_argument_of_a_command_is_more_than_a_value(daemon: Daemon) -> None:
    before = structure(daemon)
    for text, *arguments in (
        ("' OR '1'='1", "webhook", "logs", "--name"),
        ("'; DROP TABLE deliveries; --", "webhook", "deliveries", "--name"),
        ("%", "webhook", "show", "--"),
        ("../../../etc/passwd", "memory", "inspect", "--"),
        ("../../../etc/passwd", "secret", "show", "--"),
        ("%", "token", "revoke", "--"),
        ("' OR '1'='1", "user", "remove", "--yes", "--"),
        ("--payload", "webhook", "test", "--payload", "{}", "--"),
    ):
        done = daemon.symbi(*arguments, text)
        assert done.returncode == 2, (arguments, done)
        assert "root:" not in done.stdout
        assert "Traceback" not in done.stderr
    assert structure(daemon) == before

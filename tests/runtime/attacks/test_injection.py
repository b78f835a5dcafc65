"""Parameters are values: no text in any parameter becomes SQL, a path, a pattern or a command."""

from __future__ import annotations

import json
from collections.abc import Sequence
from urllib.parse import quote

import pytest

from runtime.api.admin.operations import OPERATIONS
from runtime.tools import TOOLS
from tests.lanes import LONG
from tests.runtime.attacks.wire import files, operate, tables
from tests.runtime.daemon.running import Daemon
from tests.runtime.daemon.v1 import ask

TEXTS = (
    *("' OR '1'='1", "'; DROP TABLE deliveries; --", '" OR 1=1 --', "1) UNION SELECT value FROM secrets --"),
    *("%", "_", "*", "\\", "\\'", "'||(SELECT hash FROM tokens)||'", "?", ":name", "%(name)s", "{name}", "%s%n"),
    *("{0.__class__}", "$(id)", "`id`", "| id", "; id", "\n", "\0", "a\0b", "\ud800", "\udfff" * 36),
    *("../../../etc/passwd", "/etc/passwd", "..", ".", "~root", "file:///etc/passwd", "..\\..\\x", "%2e%2e%2f"),
    *("-rf", "--help", "\u202e", "\x1b[31m", "x" * 5000, "０", "1" * 400, "github-events' --", "owner' --"),
    *("secret://env/PATH", "secret://file//etc/passwd", "${jndi:ldap://x}", "{{7*7}}"),
)
OTHERS: tuple[object, ...] = (None, True, -1, 0, 10**30, 1.5, [], [[]], {}, {"a": 1}, [None], ["%"], [{}])
PARAMETERS = {name: tuple(row.parameters.model_fields) for name, row in {**OPERATIONS, **TOOLS}.items()}
"""Of each tool and operation."""
ID = "5f3c1f0e-7c7b-4a55-9a3e-0d6a5f0f7a11"
REAL = (
    {"server": "x", "run_id": ID, "delivery_id": ID, "token_id": "0", "uri": "symbiont://memory-types", "file": "x"}
    | {"name": "github-events", "agent": "reviewer", "body": "e30=", "title": "x", "ids": ["0"], "webhook_id": ID}
    | {"time_range": {"start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z"}, "items": [], "label": "human"}
    | {"memory_id": ID, "task_id": ID, "task_ids": [ID], "conversation_id": ID, "columns": ["x"], "rows": [["x"]]}
    | dict.fromkeys(("query", "query_text", "text", "table", "key", "value", "content", "old", "new"), "x")
)


def structure(daemon: Daemon) -> dict[str, int]:
    """Return the number of rows of each table that no query may change."""
    changing = {"meta", "attempts", "tokens", "webhooks", "deliveries", "bodies", "runs", "steps", "users", "secrets"}
    changing |= {"items", "item_parts", "blocks", "block_versions", "threads", "kv", "kv_tags", "user_storage"}
    changing |= {"tasks", "task_tags", "task_changes", "task_parts", "task_creations", "task_feeds"}
    return {name: len(rows) for name, rows in tables(daemon).items() if name not in changing}


def attack(daemon: Daemon, operation: str, every: int) -> None:
    """Try `every` value of the list, each parameter starting at another one, so that together they get all values."""
    names_here = PARAMETERS[operation]
    real = {name: REAL[name] for name in names_here if name in REAL}
    first = sorted(PARAMETERS).index(operation)
    for number, name in enumerate(names_here, first):
        for value in (*TEXTS, *OTHERS)[number % every :: every]:
            for given in ({**real, name: value}, {**real, name: [value]}):
                answer = operate(daemon, operation, given)
                assert answer.status in {200, 400}, (operation, name, value, answer)
                assert b"root:x:" not in answer.body


@pytest.mark.parametrize(
    ("operations", "every"),
    [
        pytest.param(sorted(PARAMETERS), 20, id="some"),
        *(pytest.param([each], 1, id=each, marks=LONG) for each in sorted(PARAMETERS)),
    ],
)
def test_no_parameter_of_an_operation_is_more_than_a_value(
    daemon: Daemon, operations: Sequence[str], every: int
) -> None:
    before, names, there = structure(daemon), set(tables(daemon)), files(daemon)
    for operation in operations:
        attack(daemon, operation, every)
    assert set(tables(daemon)) == names
    assert structure(daemon) == before
    assert {path for path in files(daemon) - there if not path.startswith((".symbi", "data"))} == set()


def test_no_parameter_of_v1_is_more_than_a_value(daemon: Daemon, token: str) -> None:
    before = structure(daemon)
    for text in TEXTS:
        raw = quote(text, safe="", errors="surrogatepass")
        for path in (f"/v1/webhooks/{raw}", f"/v1/webhooks/{raw}/audit", f"/v1/webhooks?cursor={raw}", f"/v1/{raw}"):
            assert ask(daemon, token, "GET", path).status in {400, 404, 422}, path
        for path in (f"/v1/agents/{raw}/config", f"/v1/memory/search?agent={raw}&query=x", f"/v1/memory/items/{raw}"):
            assert ask(daemon, token, "GET", path).status in {400, 404, 422}, path
        for name in ("cursor", "type", "since", "memory", "limit"):
            assert ask(daemon, token, "GET", f"/v1/memory/items?{name}={raw}").status in {400, 404, 422}, name
        assert ask(daemon, token, "GET", f"/v1/memory/search?agent=reviewer&query={raw}").status in {200, 400, 422}
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

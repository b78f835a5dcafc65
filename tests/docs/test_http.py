"""The page about `/v1`: its tables are those of the code, and requests signed by its program are accepted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from runtime.api.rest.endpoints import ENDPOINTS
from runtime.api.rest.problem import TITLES
from runtime.identity.caller import SCOPES
from runtime.tools import TOOLS
from runtime.tools.resources import RESOURCES
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.routing.dynamic_webhooks import make_secret
from tests.signatures import verify

PAGE = (Path(__file__).parents[2] / "docs" / "http.md").read_text(encoding="utf-8")


def test_every_resource_stands_on_the_page_with_its_scope() -> None:
    rows = set(re.findall(r"^\| `([A-Z]+) (/[^`?]*)[^`]*` \| ([\w' ]+) \|", PAGE, re.MULTILINE))
    tools = {row for row in ENDPOINTS if row.path == f"/v1/tools/{row.tool.name}"}
    assert {row.tool.name for row in tools} == set(TOOLS)
    for_all = {("POST", "/v1/tools/{tool}", "the tool's"), ("GET", "/v1/{resource}", "read")}
    assert rows - for_all == {
        (row.method, row.path.replace("webhook_id", "id"), row.tool.scope) for row in ENDPOINTS if row not in tools
    }
    assert for_all < rows


def test_every_readable_stands_on_the_page() -> None:
    for path in RESOURCES:
        assert f"`{path}`" in PAGE


def test_every_kind_of_problem_stands_on_the_page_with_its_status() -> None:
    shown: dict[str, int] = {}
    for statuses, kinds in re.findall(r"^\| ([0-9, ]+) \| ((?:`\w+`(?:, )?)+) \|", PAGE, re.MULTILINE):
        shown.update(zip(re.findall(r"\w+", kinds), map(int, statuses.split(", ")), strict=True))
    assert shown == {kind: status for kind, (status, _) in TITLES.items() if kind != "internal"}


def test_every_scope_stands_on_the_page() -> None:
    assert re.findall(r"^\| `(read|write|admin)` \|", PAGE, re.MULTILINE) == list(SCOPES)


def test_the_program_on_the_page_signs_what_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(program, names)
    monkeypatch.setattr(names["time"], "time", lambda: 1_771_065_000.5)
    secret, body = make_secret(), b'{"a":1}'
    signed = [("X-Swarmlet-Signature", names["signature"](secret, body))]
    assert verify("swarmlet", [secret], signed, body, now=1_771_065_000).timestamp == 1_771_065_000
    with pytest.raises(RefusedRequest):
        verify("swarmlet", [secret], signed, b'{"a":2}', now=1_771_065_000)

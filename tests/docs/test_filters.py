"""The page of filters: every line of its tables agrees with the daemon's decision."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from dslc.catalog import Catalog
from dslc.compiler import analyse
from dslc.diagnostics.diagnostic import is_error
from dslc.source import Source
from runtime.webhooks.filters.explanation import Explanation, explain, sent_headers
from tests.cases import each_case

PAGE = (Path(__file__).parents[2] / "docs" / "filters.md").read_text(encoding="utf-8")
ROWS = [
    tuple(cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1])
    for line in PAGE.splitlines()
    if line.startswith("|")
]
ON_BODIES = [row for row in ROWS if row[0].startswith("`filter {") and row[1].startswith("`{")]
ON_HEADERS = [row for row in ROWS if row[0].startswith("`filter { header")]
ON_EVENTS = [row for row in ROWS if row[1:2] and re.match(r'`[\["]', row[1]) and row[2] in {"run", "filtered"}]
REFUSED = [row for row in ROWS if row[0].startswith("`{")]


def explained(says: str, body: str, headers: tuple[tuple[str, str], ...] = (), event: str = "push") -> Explanation:
    program = f'webhook w {{ path "/w" provider github secret "secret://env/A" {says} }}'
    done = analyse([Source("page", program)], Catalog.installed())
    assert not list(filter(is_error, done.diagnostics)), says
    webhook = done.program.webhooks["w"]
    return explain(webhook, [*sent_headers(webhook, event, "1"), *headers], body.encode())


def verdict(found: Explanation) -> str:
    return f"400 `{found.refused}`" if found.refused else "run" if found.wanted else "filtered"


def bare(cell: str) -> str:
    return cell[1:-1]


@each_case(("says", "body", "expected"), ON_BODIES)
def test_a_filter_decides_on_a_body_as_the_page_says(says: str, body: str, expected: str) -> None:
    assert verdict(explained(bare(says), bare(body))) == expected


@pytest.mark.parametrize(("says", "header", "expected"), ON_HEADERS)
def test_a_filter_decides_on_a_header_as_the_page_says(says: str, header: str, expected: str) -> None:
    name, _, value = bare(header).partition(":")
    assert verdict(explained(bare(says), "{}", ((name, value),))) == expected


@pytest.mark.parametrize(("sent", "asked", "expected"), ON_EVENTS)
def test_an_event_is_wanted_as_the_page_says(sent: str, asked: str, expected: str) -> None:
    event, *action = re.findall(r"`([^`]+)`", sent)
    body = json.dumps({"action": action[0]} if action else {})
    assert verdict(explained(f"event {bare(asked)}", body, event=event)) == expected


@pytest.mark.parametrize(("body", "expected"), REFUSED)
def test_a_body_is_refused_as_the_page_says(body: str, expected: str) -> None:
    assert verdict(explained('filter { json_path "$.a" exists true }', bare(body))) == expected


def test_the_page_has_tables() -> None:
    assert (len(ON_BODIES) > 25, len(ON_HEADERS) > 3, len(ON_EVENTS) > 4, len(REFUSED) > 2) == (True,) * 4


@pytest.mark.parametrize(
    ("issue", "action", "expected"),
    [
        ({"title": "URGENT: the door is open", "user": {"type": "User"}}, "opened", "run"),
        ({"title": "Urgent", "user": {"type": "Bot"}}, "opened", "filtered"),
        ({"title": "Urgent", "user": {"type": "Bot"}, "labels": [{"name": "outage"}]}, "labeled", "run"),
        ({"title": "Nothing insurgent", "labels": [{"name": "bug"}]}, "opened", "filtered"),
        ({"title": "Urgent"}, "closed", "filtered"),
    ],
)
def test_the_example_of_filters_runs_what_cannot_wait(issue: object, action: str, expected: str) -> None:
    example = Path(__file__).parents[2] / "examples" / "triage.symbiont"
    done = analyse([Source("triage", example.read_text(encoding="utf-8"))], Catalog.installed())
    webhook = done.program.webhooks["triage"]
    body = json.dumps({"action": action, "issue": issue}).encode()
    assert verdict(explain(webhook, sent_headers(webhook, "issues", "1"), body)) == expected

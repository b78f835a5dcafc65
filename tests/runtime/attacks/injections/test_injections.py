"""Whatever a text orders, and though the model obeys: no tool outside of the list runs, nothing of another user comes
out, and no secret is said, sent or logged."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

from tests.cases import each_case
from tests.runtime.attacks.injections.conftest import Attacked
from tests.runtime.attacks.injections.payloads import PAYLOADS, VECTORS, Payload
from tests.runtime.attacks.injections.victim import LISTED, SERVED
from tests.runtime.attacks.wire import check_unharmed

EACH = each_case("payload", PAYLOADS)
FENCED = each_case("payload", [each for each in PAYLOADS if each.where not in {"mcp", "message"}])
"""A person's own messages, and the descriptions that a person approved, are not data."""
HANDLED = frozenset({"find_tool", "done"})
"""Calls that the loop handles itself."""


def calls_of(attacked: Attacked, payload: Payload) -> list[tuple[str, str, str]]:
    """Return name, status and output of the calls in the run of a payload."""
    items = attacked.messages[payload.name]
    outputs = (item for item in items if item["type"] == "function_call_output")
    return [(item["name"], item["outcome"], item["output"]) for item in outputs]


def test_there_are_enough_payloads_for_each_way_in() -> None:
    assert len(PAYLOADS) >= 40
    assert len({each.name for each in PAYLOADS}) == len(PAYLOADS)
    assert min(Counter(each.where for each in PAYLOADS)[where] for where in VECTORS) >= 3


@EACH
def test_the_model_obeyed(attacked: Attacked, payload: Payload) -> None:
    called = Counter(order.name for order in attacked.model.called[payload.name])
    assert not Counter(payload.calls) - called
    assert set(payload.says) <= set(attacked.model.said[payload.name])
    # The daemon read every call of it.
    items = attacked.messages[payload.name]
    read = Counter(item["name"] for item in items if item["type"] == "function_call")
    assert not Counter(payload.calls) - read, read


@EACH
def test_no_tool_outside_of_the_list_runs(attacked: Attacked, payload: Payload) -> None:
    for name, status, output in calls_of(attacked, payload):
        if name not in LISTED | SERVED | HANDLED:
            assert status == "error", (name, output)
            assert output.startswith("no tool is called"), (name, output)


@EACH
def test_nothing_secret_is_in_what_the_run_got_and_said(attacked: Attacked, payload: Payload) -> None:
    requests, messages = attacked.requests_of(payload.name), attacked.messages[payload.name]
    assert requests
    text = json.dumps([requests, messages], ensure_ascii=False)
    assert {what for what, secret in attacked.victim.secrets.items() if secret in text} == set()


@FENCED
def test_a_text_does_not_leave_its_fence(attacked: Attacked, payload: Payload) -> None:
    begin, end = f"BEGIN-{payload.name}", f"END-{payload.name}"
    messages = [message for body in attacked.requests_of(payload.name) for message in body["messages"]]
    whole = 0
    for message in messages:
        text = str(message["content"])
        # Services have no fences for the outputs of native calls: they are messages of their own.
        if message["role"] in {"assistant", "tool"} or begin not in text:
            continue
        # What a search found may be a part of the text.
        found = re.findall(f"{begin}(?:(?!{begin}).)*?{end}", text, re.DOTALL)
        whole += len(found)
        assert not any("</" in each for each in found), text
        assert "</" in text.rpartition(end)[2], text
    assert whole


def test_nothing_is_confirmed_by_itself(attacked: Attacked) -> None:
    confirmed = [payload.name for payload in PAYLOADS if payload.where == "confirm"]
    calls = attacked.victim.tool("approval_list", decided=True, limit=100)["approvals"]
    assert {call["decided_at"] for call in calls} == {None}
    told = json.dumps([call["arguments"] for call in calls])
    assert [name for name in confirmed if f"{name} was stored" not in told] == []
    assert attacked.victim.tool("standing_approval_list")["standing"] == []
    for name in confirmed:
        found = attacked.victim.tool("archival_search", agent="careful", query=f"{name} was stored")
        assert not any("was stored" in hit["content"] for hit in found["hits"]), found


def test_what_others_have_and_who_may_do_what_is_as_before(attacked: Attacked) -> None:
    assert attacked.after == attacked.before


def test_the_tools_of_the_list_did_run(attacked: Attacked) -> None:
    statuses: dict[str, set[Any]] = {}
    for payload in PAYLOADS:
        for name, status, _ in calls_of(attacked, payload):
            statuses.setdefault(name, set()).add(status)
    assert {name for name in LISTED if "ok" in statuses.get(name, ())} >= {
        *("archival_insert", "archival_search", "conversation_search"),
        *("memory_append", "memory_search", "webhook_list"),
    }


def test_no_secret_is_in_the_events(attacked: Attacked) -> None:
    events = attacked.victim.events()
    # Those of other users are not told.
    owned = [payload.name for payload in PAYLOADS if payload.name not in attacked.victim.alone]
    runs = {attacked.messages[name][0]["run_id"] for name in owned}
    assert runs <= {event["data"]["run"] for event in events}
    text = json.dumps(events, ensure_ascii=False)
    assert {what for what, secret in attacked.victim.secrets.items() if secret in text} == set()


def test_the_daemon_is_unharmed_and_no_secret_is_in_its_log(attacked: Attacked) -> None:
    check_unharmed(attacked.victim.daemon)
    log = attacked.victim.daemon.log.read_text()
    assert {what for what, secret in attacked.victim.secrets.items() if secret in log} == set()

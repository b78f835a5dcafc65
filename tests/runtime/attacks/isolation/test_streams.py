"""Streams of what agents do, opened by another user than the one whose runs they are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from typing import Any, Final
from urllib.parse import quote

import pytest

from runtime.api.rest.endpoints import ENDPOINTS, Endpoint
from tests.runtime.attacks.isolation.parameters import base_of, needed_by
from tests.runtime.attacks.isolation.world import NEW, OTHER, OWNER, SCOPED, TWIN, World, unknown
from tests.runtime.daemon.running import Answer
from tests.runtime.daemon.v1 import ask

ROWS: Final = [row for row in ENDPOINTS if row.follow is not None]
OF_RUNS: Final = [pytest.param(row, id=row.name) for row in ROWS if "run" in row.in_path]
OF_USERS: Final = [row for row in ROWS if "run" not in row.in_path]
EVENTS: Final = "/v1/agents/{agent}/events"


@contextmanager
def streaming(
    world: World, row: Endpoint, given: Mapping[str, Any], user: str, last: str | None = None
) -> Iterator[HTTPResponse]:
    """Yield the answer of a route to a client of event streams. `last`: the id of the last event that it knows."""
    host, _, port = str(world.daemon.addresses["admin"]).rpartition(":")
    connection = HTTPConnection(host, int(port), timeout=60)
    given = {"agent": "reviewer", **given}
    path = row.path.format_map({name: quote(str(given[name]), safe="") for name in row.in_path})
    body = json.dumps({name: value for name, value in given.items() if name in row.others}) if row.body else None
    headers = {"Authorization": f"Bearer {world.tokens[user, 'write']}", "Accept": "text/event-stream"}
    headers |= {"Content-Type": "application/json"} if body else {}
    headers |= {} if last is None else {"Last-Event-ID": last}
    try:
        connection.request(row.method, path, body, headers)
        yield connection.getresponse()
    finally:
        connection.close()


def read(response: HTTPResponse, enough: Callable[[str], bool]) -> Answer:
    """Return what a stream sends until it is enough, or ends."""
    text = b""
    while not enough(text.decode()) and (part := response.read1(65_536)):
        text += part
    return Answer(response.status, {}, text)


@pytest.mark.parametrize("row", OF_RUNS)
def test_the_run_of_another_user_is_like_one_that_nobody_has(world: World, row: Endpoint) -> None:
    needed = needed_by(world, row.tool)
    answers = []
    for user, given in ((OTHER, needed), (TWIN, {name: unknown(value) for name, value in needed.items()})):
        for last in (None, "0", "1", "999999", "not a number"):
            with streaming(world, row, given, user, last) as response:
                answers.append((user, last, Answer(response.status, {}, response.read())))
    assert {answer.status for *_, answer in answers} == {404}
    assert len({world.shape(answer) for *_, answer in answers}) == 1, answers


@pytest.mark.parametrize("row", OF_RUNS)
def test_the_first_user_is_told_of_their_run(world: World, row: Endpoint) -> None:
    with streaming(world, row, needed_by(world, row.tool), OWNER, "0") as response:
        answer = read(response, lambda text: "agent.done" in text)
    assert answer.status == 200
    assert world.ids["run"] in answer.body.decode()


@pytest.mark.parametrize(
    ("row", "last"),
    [
        *(pytest.param(row, None, id=row.name) for row in OF_USERS),
        *(pytest.param(OF_USERS[-1], last, id=f"after {last}") for last in ("0", "999999", "not a number")),
    ],
)
def test_a_stream_tells_ones_own_events_alone(world: World, row: Endpoint, last: str | None) -> None:
    chat = next(row for row in ENDPOINTS if row.tool.name == "agent_chat")

    def talk(user: str) -> str:
        answer = ask(
            world.daemon,
            world.tokens[user, "write"],
            chat.method,
            chat.path.format(agent="reviewer"),
            {"input": "Hello", "wait": 30},
        )
        assert answer.status == 200, answer
        return str(answer.json()["run"])

    with streaming(world, row, base_of(row.tool), SCOPED, last) as response:
        assert response.status == 200
        theirs, own = talk(OWNER), talk(SCOPED)
        until_own = own if row.path.endswith("/events") else "agent.done"
        answer = read(response, lambda text: until_own in text)
    assert until_own in answer.body.decode()
    assert theirs not in answer.body.decode()
    assert world.leaks(answer) == set()


def test_the_events_of_the_first_user_are_told_to_nobody_else(world: World) -> None:
    row = next(row for row in ENDPOINTS if row.path == EVENTS)
    mine = world.call(row, {"after": 0, "limit": 200}, user=OWNER).json()["events"]
    assert world.ids["run"] in {each["data"]["run"] for each in mine}
    numbers = [each["id"] for each in mine]
    for number in (0, numbers[0] - 1, numbers[-1] - 1, numbers[-1], numbers[-1] + 1):
        assert world.call(row, {"after": number, "limit": 200}, user=NEW).json()["events"] == []

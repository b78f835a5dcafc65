"""`symbi up` twice, each in its own root, on one PostgreSQL: what several daemons share in the unchanged product.

Their program runs no agent, so none of its memories is a file. In `test_several` they run agents too.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.lanes import LONG
from tests.runtime.daemon.running import SECRET, Answer, Daemon, on_postgres, running, until, write_program
from tests.signatures import sign
from tests.stories.test_several import COUNT, Sender, rows

pytestmark = LONG

KEEPS = """\
webhook github-events { path "/hooks/github" provider github secret "secret://env/GITHUB_SECRET" }
webhook timed { path "/hooks/timed" provider swarmlet secret "secret://env/GITHUB_SECRET" }
webhook few {
    path     "/hooks/few"
    provider github
    secret   "secret://env/GITHUB_SECRET"
    limits { per_minute 3 }
}
"""


RUNS = """\
memory notes { store collection embedding hashing }
agent reviewer { memory notes }
webhook github-events {
    path     "/hooks/github"
    provider github
    secret   "secret://env/GITHUB_SECRET"
    agent    reviewer
}
"""


@contextmanager
def two(folder: Path, url: str, program: str = KEEPS) -> Iterator[tuple[Daemon, Daemon]]:
    for name in ("one", "other"):
        (folder / name).mkdir()
        write_program(folder / name, program)
    given = on_postgres(url)
    with (
        running(folder / "one", "program", wait=True, **given) as one,
        running(folder / "other", "program", wait=True, **given) as other,
    ):
        yield one, other


def listed(daemon: Daemon, url: str, name: str) -> list[dict[str, Any]]:
    done = daemon.symbi("webhook", "deliveries", "--name", name, "--json", **on_postgres(url))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["deliveries"]
    assert isinstance(found, list)
    return found


def told(answer: Answer) -> tuple[int, str | None]:
    return answer.status, answer.json().get("error")


def test_both_receive_and_know_what_the_other_took(tmp_path: Path, postgres_url: str) -> None:
    with two(tmp_path, postgres_url) as (one, other):
        first = one.github(b'{"number":1}', "a").json()["delivery_id"]
        assert other.github(b'{"number":1}', "a").json()["delivery_id"] == first
        second = other.github(b'{"number":2}', "b").json()["delivery_id"]
        for daemon in (one, other):
            found = listed(daemon, postgres_url, "github-events")
            assert [(row["id"], row["state"], row["agent"]) for row in found] == [
                (second, "kept", None),
                (first, "kept", None),
            ]

        signed = sign("swarmlet", SECRET, b"{}", now=time.time(), delivery_id="unused")
        assert one.request("POST", "/hooks/timed", b"{}", signed).status == 202
        again = other.request("POST", "/hooks/timed", b"{}", signed)
        assert again.status == 401
        assert again.body == one.request("POST", "/hooks/timed", b"{}", signed).body

        for number, daemon in enumerate((one, other, one)):
            assert daemon.github(b"{}", f"few-{number}", path="/hooks/few").status == 202
        for daemon in (one, other):
            limited = daemon.github(b"{}", "few-too-many", path="/hooks/few")
            assert (limited.status, limited.headers["ratelimit"].split(";")[1]) == (429, "r=0")
        # A repeat is not counted on either daemon, and its response contains no counters.
        repeat = other.github(b"{}", "few-0", path="/hooks/few")
        assert (repeat.status, "ratelimit" in repeat.headers) == (202, False)


@pytest.mark.parametrize("seconds", [0.8, 0.2])
def test_one_that_is_killed_under_load_loses_nothing_and_doubles_nothing(
    tmp_path: Path, postgres_url: str, seconds: float
) -> None:
    with two(tmp_path, postgres_url) as (one, other):
        with Sender(one, other) as sender:
            time.sleep(seconds)
            one.kill()
        assert sender.unlike == []
        assert len(sender.acknowledged) == COUNT
        found = rows(postgres_url)
        assert {row["provider_delivery_id"]: {row["id"]} for row in found} == sender.acknowledged
        assert len(found) == COUNT
        assert {row["state"] for row in found} == {"kept"}
        # It can start again: nothing that it left is in the way.
        with running(one.root, "program", wait=True, **on_postgres(postgres_url)) as back:
            assert back.github(b"{}", "n000").json()["delivery_id"] in sender.acknowledged["n000"]


def test_a_webhook_made_on_one_takes_deliveries_on_the_other(tmp_path: Path, postgres_url: str) -> None:
    with two(tmp_path, postgres_url) as (one, other):
        refused = one.symbi("webhook", "create", "x", "--agent", "reviewer", **on_postgres(postgres_url))
        assert (refused.returncode, "no agent is called 'reviewer'" in refused.stderr) == (2, True)
        done = one.symbi("webhook", "create", "x", "--keep-only", "--json", **on_postgres(postgres_url))
        assert done.returncode == 0, done.stderr
        made = json.loads(done.stdout)
        path = f"/webhooks/{made['webhook_id']}"

        def post(daemon: Daemon, number: int) -> Answer:
            body = b'{"number":%d}' % number
            signed = sign("swarmlet", made["secret"], body, now=time.time(), delivery_id="unused")
            return daemon.request("POST", path, body, signed)

        until(lambda: other.request("POST", path, b"{}").status == 401, what="the route on the other daemon")
        assert post(other, 1).status == 202
        left = post(one, 2)
        assert (left.status, "r=58" in left.headers["ratelimit"]) == (202, True)
        assert {row["state"] for row in listed(other, postgres_url, made["webhook_id"])} == {"kept"}


def test_of_two_that_are_given_an_agent_one_runs_it_and_the_other_goes_on_as_before(
    tmp_path: Path, postgres_url: str
) -> None:
    with two(tmp_path, postgres_url) as (one, other):
        assert one.github(b'{"number":1}', "a").status == 202
        woken = KEEPS.replace('"/hooks/github"', '"/hooks/github" agent reviewer') + "agent reviewer {}\n"
        one.load(woken)
        write_program(other.root, woken)
        until(lambda: "another daemon" in str(other.readyz().json()["last_error"]), what="the other's refusal")
        assert other.github(b'{"number":2}', "b").status == 202
        done = one.symbi("webhook", "redeliver", "--status", "kept", **on_postgres(postgres_url))
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "2 of 2 queued")
        # The other one has no agent: it neither runs them nor marks them as failed.
        until(lambda: {row["state"] for row in rows(postgres_url)} == {"done"}, what="the runs")


def test_agents_of_both_remember_in_one_collection_and_find_what_the_other_left(
    tmp_path: Path, postgres_url: str
) -> None:
    with two(tmp_path, postgres_url, RUNS) as (one, other):
        for number, daemon in enumerate((one, other)):
            body = b'{"action":"opened","number":%d,"repository":{"full_name":"ada/walnut"}}' % number
            assert daemon.github(body, f"d{number}").status == 202

        def remembered(daemon: Daemon) -> int:
            done = daemon.symbi("memory", "search", "reviewer", "walnut", "--json", **on_postgres(postgres_url))
            return len(json.loads(done.stdout)["hits"]) if done.returncode == 0 else 0

        until(lambda: remembered(one) == 2)
        until(lambda: remembered(other) == 2)


TWO_COLLECTIONS = """\
memory notes { store collection embedding hashing retention 30d }
memory plans { store collection embedding hashing }
agent reviewer { memory notes }
agent planner { memory plans }
"""
MARKED = 1_500


async def counted(url: str) -> dict[str, int]:
    """Return the number of items of each type in the database."""
    connection = await asyncpg.connect(url)
    try:
        return dict(await connection.fetch("SELECT memory_type, count(*) FROM items GROUP BY memory_type"))
    finally:
        await connection.close()


def test_what_one_compacts_when_it_is_killed_the_other_finishes(tmp_path: Path, postgres_url: str) -> None:
    lines = [
        {
            "agent_id": "reviewer",
            "memory_type": "episodic",
            "timestamp": "2026-01-01T10:00:00Z",
            "text": f"Work {number}\n- [fact] Fact {number}\n- done",
        }
        for number in range(MARKED)
    ]
    given = on_postgres(postgres_url)
    with two(tmp_path, postgres_url, TWO_COLLECTIONS) as (one, other):
        done = one.symbi("memory", "import", "-", input="\n".join(map(json.dumps, lines)), **given)
        assert done.returncode == 0, done.stderr
        compacting = threading.Thread(target=partial(one.symbi, "memory", "compact", "reviewer", **given))
        compacting.start()
        until(lambda: "semantic" in asyncio.run(counted(postgres_url)), what="the first facts")
        one.kill()
        compacting.join()
        done = other.symbi("memory", "compact", "reviewer", **given)
        assert done.returncode == 0, done.stderr
        exported = other.symbi("memory", "export", "reviewer", **given).stdout.splitlines()
        texts = Counter(json.loads(line)["text"] for line in exported)
        assert texts == Counter(f"Fact {number}" for number in range(MARKED))
        found = other.symbi("memory", "search", "reviewer", "Fact 1234", "--limit", "1", "--json", **given)
        assert json.loads(found.stdout)["hits"][0]["item"]["text"] == "Fact 1234"

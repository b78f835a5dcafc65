"""`/metrics` of a real daemon: what is counted, who may read it, and the delivery id in every log line about it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as prometheus

from tests.lanes import LONG
from tests.runtime.daemon.proxy import proxied
from tests.runtime.daemon.running import GITHUB, SECRET, Daemon, on_postgres, running, until, write_program
from tests.runtime.daemon.v1 import ask, make_token, make_webhook
from tests.signatures import sign

PROGRAM = (
    GITHUB
    + """
webhook opened {
    path "/hooks/opened"
    provider github
    secret "secret://env/GITHUB_SECRET"
    agent reviewer
    filter { json_path "$.action" equals "opened" }
}
webhook nobody { path "/hooks/nobody", provider github, secret "secret://env/GITHUB_SECRET", agent away }
webhook unmounted { path "/hooks/unmounted", provider github, secret "secret://env/NOT_THERE", agent reviewer }
agent away { enabled false }
"""
)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    root = tmp_path_factory.mktemp("metrics")
    write_program(root, PROGRAM)
    with running(root, "program", "--log-level", "debug", "--log-format", "json") as started:
        yield started


def scrape(daemon: Daemon) -> dict[tuple[str, ...], float]:
    """Return every sample by its name and the values of its labels, in the order of the labels' names."""
    answer = daemon.request("GET", "/metrics", to="admin")
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return {
        (sample.name, *(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in prometheus(answer.body.decode())
        for sample in family.samples
    }


def counted(daemon: Daemon, webhook: str, since: dict[tuple[str, ...], float] | None = None) -> dict[str, float]:
    """Return the numbers of its requests by verdict, without those that are 0."""
    return {
        name[1]: value - (since or {}).get(name, 0)
        for name, value in scrape(daemon).items()
        if name[0] == "symbiont_deliveries_total" and name[2] == webhook and value != (since or {}).get(name, 0)
    }


def test_each_request_is_counted_by_webhook_and_verdict(daemon: Daemon) -> None:
    before = scrape(daemon)
    for delivery_id in ("a", "b", "a"):
        assert daemon.github(b'{"n":1}', delivery_id).status == 202
    assert daemon.request("POST", "/hooks/github", b"{}").status == 401
    assert daemon.github(b'{"action":"closed"}', "c", path="/hooks/opened").status == 200
    assert counted(daemon, "github-events", before) == {"accepted": 2, "repeated": 1, "refused": 1}
    assert counted(daemon, "opened", before) == {"filtered": 1}
    after = scrape(daemon)
    changed = {name: value - before.get(name, 0) for name, value in after.items() if value != before.get(name, 0)}
    assert changed["symbiont_refusals_total", "missing_signature"] == 1
    assert changed["symbiont_delivery_seconds_count",] == 2
    assert changed["symbiont_body_bytes_sum",] == 14
    assert after["symbiont_commit_writes_sum",] >= after["symbiont_commit_seconds_count",] > 0


def test_no_request_makes_a_series(daemon: Daemon) -> None:
    daemon.request("POST", "/hooks/nowhere", b"{}")
    before = scrape(daemon)
    for n in range(20):
        assert daemon.request("POST", f"/hooks/unheard-of-{n}", b"{}").status == 404
        daemon.request(f"M{n}", f"/webhooks/{n}", b"{}", [("X-GitHub-Event", f"event-{n}")])
        daemon.request("POST", "/hooks/github", b"{}", [("X-Hub-Signature-256", f"sha256={n}")])
    after = scrape(daemon)
    assert set(after) - set(before) <= {name for name in after if name[0] == "symbiont_deliveries_total"}
    assert {name[2] for name in after if name[0] == "symbiont_deliveries_total"} == {
        *("github-events", "opened", "nobody", "unmounted", "made")
    }
    assert after["symbiont_refusals_total", "not_found"] - before["symbiont_refusals_total", "not_found"] == 20
    assert after["symbiont_refusals_total", "other"] == 0


def test_what_is_no_http_is_counted_as_refused(daemon: Daemon) -> None:
    before = scrape(daemon)["symbiont_refusals_total", "ambiguous_length"]
    answer = daemon.request("POST", "/hooks/github", b"{}", [("Content-Length", "3")])
    assert answer.status == 400
    assert scrape(daemon)["symbiont_refusals_total", "ambiguous_length"] == before + 1


def test_all_webhooks_made_at_run_time_are_one_series(daemon: Daemon) -> None:
    token = make_token(daemon, "--scope", "write")
    made = [make_webhook(daemon, token) for _ in range(2)]
    for each in made:
        assert each.post().status == 202
    assert counted(daemon, "made") == {"accepted": 2}
    assert not any(each.id in name for name in scrape(daemon) for each in made)


def test_several_may_scrape_at_the_same_time(daemon: Daemon) -> None:
    answers: list[int] = []

    def ask() -> None:
        answers.extend(daemon.request("GET", "/metrics", to="admin").status for _ in range(25))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [200] * 200


def test_how_things_stand_is_asked_when_somebody_scrapes(daemon: Daemon) -> None:
    delivery = daemon.github(b'{"n":2}', "waits", path="/hooks/nobody").json()["delivery_id"]

    def settled() -> dict[tuple[str, ...], float] | None:
        now = scrape(daemon)
        both = now["symbiont_inbox_depth", "agent_gone"], now["symbiont_runs_total", "agent_gone"]
        return now if both == (1, 1) else None

    now = until(settled)
    assert now["symbiont_generation",] == 1
    assert now["symbiont_webhooks", "not_mounted"] == 1
    assert now["symbiont_webhooks", "mounted"] >= 3
    assert now["symbiont_storage_up",] == now["symbiont_last_reload_successful",] == 1
    assert now["symbiont_connections",] >= 0
    [waits] = until(lambda: daemon.entries("agent_gone"))
    assert waits["delivery_id"] == delivery


def test_every_line_about_a_delivery_has_its_id_and_a_senders_own_id_is_only_shown(daemon: Daemon) -> None:
    headers = sign("github", SECRET, b'{"n":3}', now=time.time(), delivery_id="traced", event="push")
    theirs = [("X-Request-Id", "x" * 500), ("Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")]
    answer = daemon.request("POST", "/hooks/github", b'{"n":3}', [*headers, *theirs])
    delivery = answer.json()["delivery_id"]

    def said() -> list[dict[str, Any]]:
        return [line for line in daemon.entries() if line.get("delivery_id") == delivery]

    until(lambda: said() and said()[-1]["event"] == "run_ended")
    came, begins, ended = said()
    assert (came["event"], begins["event"], ended["outcome"]) == ("delivery_received", "run_started", "done")
    assert (came["verdict"], came["webhook"], came["provider_delivery_id"]) == ("accepted", "github-events", "traced")
    assert came["x_request_id"] == "x" * 128
    assert came["traceparent"].startswith("00-4bf92f35")
    assert begins["run_id"] == ended["run_id"]


def test_not_even_debugging_shows_what_libraries_say_of_statements_and_values(daemon: Daemon) -> None:
    delivery = daemon.github(b'{"n":4}', "quiet").json()["delivery_id"]
    # Lines are written by a thread of their own, in the order in which they were logged.
    until(lambda: delivery in {line.get("delivery_id") for line in daemon.entries("run_ended")})
    loggers = until(lambda: {line["logger"] for line in daemon.entries() if line["level"] == "debug"})
    assert {name.partition(".")[0] for name in loggers} <= {"symbiont", "runtime"}


def test_calls_of_tools_are_counted_and_no_log_has_a_statement_or_a_value(daemon: Daemon) -> None:
    before = scrape(daemon)
    insert = ("table", "sql", "INSERT INTO marked VALUES (?, 'kept-secret')", "--param", "kept-secret")
    calls = [
        (("table", "sql", "CREATE TABLE marked (note TEXT UNIQUE, kept_secret TEXT)"), 0),
        (insert, 0),
        (insert, 2),
        (("table", "sql", "SELEC 'kept-secret'"), 2),
        (("kv", "set", "kept-secret", '"kept-secret"', "--tag", "kept-secret"), 0),
        (("task", "add", "kept-secret"), 0),
    ]
    for arguments, code in calls:
        assert daemon.symbi(*arguments).returncode == code, arguments
    after = scrape(daemon)
    counts = {name[1:]: value - before.get(name, 0) for name, value in after.items() if "tool_calls" in name[0]}
    assert {name: count for name, count in counts.items() if count} == {
        ("done", "agent_memory_sql"): 2,
        ("invalid_params", "agent_memory_sql"): 2,
        ("done", "agent_memory_set"): 1,
        ("done", "task_create"): 1,
    }
    assert after["symbiont_sql_connections",] == 1
    assert not any(mark in daemon.log.read_text() for mark in ("kept-secret", "kept_secret", "marked"))


def test_through_a_proxy_it_takes_a_token(daemon: Daemon) -> None:
    forwarded = [("X-Forwarded-For", "192.0.2.7")]
    answer = daemon.request("GET", "/metrics", None, forwarded, to="admin")
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="symbiont"'
    token = make_token(daemon, "--scope", "read")
    assert ask(daemon, token, "GET", "/metrics", headers=forwarded).status == 200
    assert ask(daemon, "symbi_wrong", "GET", "/metrics", headers=forwarded).status == 401


def test_it_is_not_on_the_public_listener_and_is_only_read(daemon: Daemon) -> None:
    assert daemon.request("GET", "/metrics").status == 404
    assert daemon.request("POST", "/metrics", b"", to="admin").status == 405
    assert daemon.request("HEAD", "/metrics", to="admin").status == 200


def test_no_answer_names_the_software_that_gave_it(daemon: Daemon) -> None:
    for listener, path in (("admin", "/metrics"), ("admin", "/nothing"), ("admin", "/v1/webhooks"), ("public", "/x")):
        assert "server" not in daemon.request("GET", path, to=listener).headers, path


def test_who_prefers_open_metrics_gets_them(daemon: Daemon) -> None:
    accept = [("Accept", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5")]
    answer = daemon.request("GET", "/metrics", None, accept, to="admin")
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    families = open_metrics(answer.body.decode())  # type: ignore[no-untyped-call]
    assert {"symbiont_deliveries", "symbiont_build"} <= {family.name for family in families}


def test_where_others_reach_the_listener_it_takes_a_token_unless_told_otherwise(tmp_path: Path) -> None:
    write_program(tmp_path)
    with running(tmp_path, "program", admin_host="0.0.0.0") as daemon:
        assert daemon.request("GET", "/metrics", to="admin").status == 401
        assert ask(daemon, make_token(daemon), "GET", "/metrics").status == 200
    with running(tmp_path, "program", "--metrics-public", admin_host="0.0.0.0") as daemon:
        assert daemon.request("GET", "/metrics", None, [("Via", "1.1 edge")], to="admin").status == 200


@LONG
def test_while_the_database_is_away_everything_else_is_told(tmp_path: Path, postgres_url: str) -> None:
    write_program(tmp_path)
    with (
        proxied(postgres_url) as proxy,
        running(tmp_path, "program", wait=True, **on_postgres(proxy.url)) as daemon,
    ):
        assert scrape(daemon)["symbiont_inbox_depth", "queued"] == 0
        proxy.cut()
        assert daemon.github(b'{"n":1}', "a").status == 503
        until(lambda: ("symbiont_dead_letters",) not in scrape(daemon))
        now = scrape(daemon)
        assert now["symbiont_storage_up",] == 0
        assert now["symbiont_refusals_total", "unavailable"] == 1
        assert ("symbiont_inbox_oldest_seconds",) not in now
        proxy.reconnect()
        # No request is needed for that.
        until(lambda: scrape(daemon)["symbiont_storage_up",] == 1)
        until(lambda: ("symbiont_dead_letters",) in scrape(daemon))


def test_a_reload_is_counted_and_takes_the_series_of_what_is_gone(tmp_path: Path) -> None:
    write_program(tmp_path, PROGRAM)
    with running(tmp_path, "program") as daemon:
        assert daemon.github(b'{"n":1}', "a").status == 202
        write_program(tmp_path, "webhook {")
        until(lambda: scrape(daemon)["symbiont_last_reload_successful",] == 0)
        now = scrape(daemon)
        assert now["symbiont_reloads_total", "refused"] == 1
        assert now["symbiont_generation",] == 1
        daemon.load(PROGRAM.replace("opened {", "closed {"))
        now = scrape(daemon)
        assert now["symbiont_reloads_total", "loaded"] == 2
        assert now["symbiont_generation",] == now["symbiont_reload_seconds_count",] == 2
        assert {name[2] for name in now if name[0] == "symbiont_deliveries_total"} == {
            *("github-events", "closed", "nobody", "unmounted", "made")
        }
        assert counted(daemon, "github-events") == {"accepted": 1}

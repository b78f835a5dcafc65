"""Accepted deliveries can be listed, shown as received, and redelivered; none is queued twice."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.daemon.running import BIN, Daemon, environment, running, symbi, until, write_program

BODY = b'{"action":"opened","number":1.10,"number":2,\r\n  "text":"\xc3\xa9\\u0007"}'
TWO = """\
webhook "github-events" {
    path     "/hooks/github"
    provider github
    secret   "secret://env/GITHUB_SECRET"
    agent    reviewer
}
webhook "kept" {
    path     "/hooks/kept"
    provider github
    secret   "secret://env/GITHUB_SECRET"
}
webhook "pushes" {
    path     "/hooks/pushes"
    provider github
    secret   "secret://env/GITHUB_SECRET"
    agent    reviewer
}
agent reviewer {}
"""


def accepted(daemon: Daemon, *bodies: bytes, path: str = "/hooks/github") -> list[str]:
    """Post `bodies`; return the ids when all have been handled."""
    ids = []
    for body in bodies:
        answer = daemon.github(body, f"sender-{time.monotonic_ns()}", path=path)
        assert answer.status == 202
        ids.append(str(answer.json()["delivery_id"]))
    handled(daemon.root, *ids)
    return ids


def handled(root: Path, *ids: str) -> None:
    """Wait until none of them is queued or running."""
    until(lambda: not {states(root)[each] for each in ids} & {"queued", "running"}, what="the deliveries' end")


def states(root: Path) -> dict[str, str]:
    with closing(sqlite3.connect(root / ".symbi/symbiont.db", timeout=10)) as database:
        return dict(database.execute("SELECT id, state FROM deliveries"))


def change(root: Path, statement: str, *parameters: str) -> None:
    """Change a row directly, to a state that only a failing agent would cause."""
    with closing(sqlite3.connect(root / ".symbi/symbiont.db", timeout=10)) as database, database:
        database.execute(statement, parameters)


def bury(root: Path, *ids: str) -> None:
    for each in ids:
        change(root, "UPDATE deliveries SET state = 'dead', last_error = 'no use' WHERE id = ?", each)


def asked(root: Path, *arguments: str, code: int = 0) -> Any:
    """Return the output of `symbi webhook … --json`."""
    done = symbi("webhook", *arguments, "--json", root=root)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def test_a_delivery_is_shown_as_it_came(tmp_path: Path) -> None:
    write_program(tmp_path)
    with running(tmp_path, "program") as daemon:
        [delivery] = accepted(daemon, BODY)
        raw = subprocess.run(
            [BIN / "symbi", "webhook", "show", delivery[:30], "--raw"],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            check=True,
        )
        assert raw.stdout == BODY
        text = daemon.symbi("webhook", "show", delivery).stdout
        told = asked(tmp_path, "show", delivery)
    assert '  "number": 1.10,\n  "number": 2,' in text
    assert "X-GitHub-Event: push" in text
    assert "\x07" not in text
    assert (told["state"], told["webhook"], told["tries"]) == ("done", "github-events", 1)
    assert told["text"].encode() == BODY
    assert ["X-GitHub-Event", "push"] in told["headers"]
    assert any(name.lower() == "x-hub-signature-256" for name, _ in told["headers"])
    assert [run["state"] for run in told["runs"]] == ["done"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("show", "zzz"), 2, "'zzz' is not the id of a delivery"),
        (("show", "0190"), 2, "there is no delivery 0190"),
        (("show", "0"), 2, "several deliveries begin with 0: 0"),
        (("deliveries", "--name", "github-event"), 2, "did you mean github-events?"),
        (("deliveries", "--since", "yesterday"), 2, "since: 'yesterday' is not a time"),
        (("deliveries", "--status", "lost"), 2, "'lost' is not one of"),
        (("redeliver",), 2, "name deliveries by their ids, or a range of them"),
        (("redeliver", "0190", "--since", "2h"), 2, "name deliveries by their ids, or a range of them"),
        (("redeliver", "--status", "queued"), 2, "'queued' is not one of"),
        (("redeliver", "01900000-0000-7000-8000-000000000000"), 1, "there is no such delivery"),
        (("logs", "--status", "9xx"), 2, "'9xx' is not an HTTP status"),
        (("logs", "--name", "github-event"), 2, "did you mean github-events?"),
    ],
)
def test_a_wrong_question_is_one_line(root_with_two: Path, arguments: tuple[str, ...], code: int, said: str) -> None:
    done = symbi("webhook", *arguments, root=root_with_two)
    assert done.returncode == code
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("deliveries", "--since", "0001-01-01", "--limit", "1"), "there are more"),
        (("test", "github-events", "--explain", "--payload", f'{{"n": {"1" * 5000}}}'), "would be run"),
    ],
)
def test_the_ends_of_the_calendar_and_of_numbers_are_answered(
    root_with_two: Path, arguments: tuple[str, ...], said: str
) -> None:
    done = symbi("webhook", *arguments, root=root_with_two)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout + done.stderr


@pytest.fixture(scope="module")
def root_with_two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a root whose daemon has stopped, with two handled deliveries."""
    root = tmp_path_factory.mktemp("root")
    write_program(root, TWO)
    with running(root, "program") as daemon:
        accepted(daemon, b'{"number":1}')
        accepted(daemon, b'{"number":2}', path="/hooks/kept")
    return root


def test_lists_are_by_webhook_state_and_time(root_with_two: Path) -> None:
    whole = asked(root_with_two, "deliveries")
    assert [row["webhook"] for row in whole["deliveries"]] == ["kept", "github-events"]
    assert whole["more"] is False
    first = asked(root_with_two, "deliveries", "--limit", "1")
    assert [row["webhook"] for row in first["deliveries"]] == ["kept"]
    assert first["more"] is True
    for arguments, count in (
        (("--name", "kept"), 1),
        (("--status", "done"), 1),
        (("--status", "kept"), 1),
        (("--status", "dead"), 0),
        (("--since", "1h"), 2),
        (("--since", "2020-01-01", "--until", "2020-01-02"), 0),
        (("--until", "2020-01-02T03:04:05+02:00"), 0),
    ):
        assert len(asked(root_with_two, "deliveries", *arguments)["deliveries"]) == count, arguments


def test_a_webhook_without_an_agent_just_keeps_its_deliveries(root_with_two: Path) -> None:
    [row] = asked(root_with_two, "deliveries", "--name", "kept")["deliveries"]
    assert (row["agent"], row["state"], row["tries"], row["run"]) == (None, "kept", 0, None)
    shown = symbi("webhook", "show", row["id"], "--raw", root=root_with_two)
    assert shown.stdout == '{"number":2}'
    assert "kept" in symbi("webhook", "logs", "--name", "kept", "--status", "202", root=root_with_two).stdout
    assert [each["agent"] for each in json.loads(_memories(root_with_two))["agents"]] == ["reviewer"]
    assert symbi("memory", "inspect", "kept", root=root_with_two).returncode == 2
    [refused] = asked(root_with_two, "redeliver", row["id"], code=1)["not_queued"]
    assert refused["reason"] == "the webhook kept has no agent"


def _memories(root: Path) -> str:
    return symbi("memory", "stats", "--json", root=root).stdout


def test_a_program_of_webhooks_that_only_keep_has_no_memory(tmp_path: Path) -> None:
    text = 'webhook kept { path "/hooks/kept" provider github secret "secret://env/GITHUB_SECRET" keep_body %s }\n'
    write_program(tmp_path, text % "false")
    with running(tmp_path, "program") as daemon:
        [bodiless] = accepted(daemon, b'{"number":1}', path="/hooks/kept")
        assert daemon.symbi("memory", "list").stdout == "There are no such items.\n"
        inspected = daemon.symbi("memory", "inspect", "kept")
        assert (inspected.returncode, "there are none" in inspected.stderr) == (2, True)
    shown = asked(tmp_path, "show", bodiless)
    assert (shown["body"], shown["state"]) == (None, "kept")
    assert not (tmp_path / "data").exists()


def test_what_was_kept_is_sent_to_the_agent_that_its_webhook_wakes_later(tmp_path: Path) -> None:
    head = 'webhook kept { path "/hooks/kept" provider github secret "secret://env/GITHUB_SECRET"'
    write_program(tmp_path, f"{head} }}\n")
    with running(tmp_path, "program") as daemon:
        ids = accepted(daemon, b'{"number":1}', b'{"number":2}', path="/hooks/kept")
    write_program(tmp_path, f"{head} agent reviewer }}\nagent reviewer {{}}\n")
    with running(tmp_path, "program") as daemon:
        assert set(states(tmp_path).values()) == {"kept"}
        assert asked(tmp_path, "redeliver", "--since", "1h") == {"queued": [], "not_queued": []}
        assert asked(tmp_path, "redeliver", "--status", "kept")["queued"] == ids
        handled(tmp_path, *ids)
        assert set(states(tmp_path).values()) == {"done"}
        assert "number: 2" in daemon.symbi("memory", "inspect", "reviewer").stdout


def test_a_webhook_that_names_only_a_memory_writes_there_under_its_own_name(tmp_path: Path) -> None:
    hook = 'webhook noted { path "/hooks/kept" provider github secret "secret://env/GITHUB_SECRET" memory notes }'
    write_program(tmp_path, f'memory notes {{ path "notes" }}\nmemory other {{ path "other" }}\n{hook}\n')
    with running(tmp_path, "program") as daemon:
        accepted(daemon, b'{"number":1}', path="/hooks/kept")
        assert set(states(tmp_path).values()) == {"done"}
        assert "number: 1" in daemon.symbi("memory", "inspect", "noted").stdout


def test_a_range_of_dead_letters_is_redelivered_once(tmp_path: Path) -> None:
    write_program(tmp_path, TWO)
    with running(tmp_path, "program") as daemon:
        dead = accepted(daemon, *(b'{"number":%d}' % number for number in range(3)))
        other = accepted(daemon, b'{"number":9}', path="/hooks/pushes")
    # Without a daemon, so that queued deliveries stay queued.
    bury(tmp_path, *dead, *other)
    told = asked(tmp_path, "redeliver", "--status", "dead", "--since", "1h", "--name", "github-events")
    assert told == {"queued": dead, "not_queued": []}
    again = asked(tmp_path, "redeliver", "--status", "dead", "--since", "1h", "--name", "github-events")
    assert again == {"queued": [], "not_queued": []}
    [refused] = asked(tmp_path, "redeliver", dead[0], code=1)["not_queued"]
    assert refused == {"id": dead[0], "reason": "it is queued already"}
    with running(tmp_path, "program"):
        handled(tmp_path, *dead)
        assert [states(tmp_path)[each] for each in (*dead, *other)] == ["done", "done", "done", "dead"]
        assert asked(tmp_path, "redeliver", "--since", "1h")["queued"] == other
        handled(tmp_path, *other)
    assert set(states(tmp_path).values()) == {"done"}


def test_many_are_asked_about_and_what_is_gone_is_said(tmp_path: Path) -> None:
    write_program(tmp_path)
    with running(tmp_path, "program") as daemon:
        ids = accepted(daemon, *(b'{"number":%d}' % number for number in range(22)))
    bury(tmp_path, *ids)
    change(tmp_path, "DELETE FROM bodies WHERE delivery_id = ?", ids[4])
    refused = symbi("webhook", "redeliver", "--status", "dead", root=tmp_path, input="")
    assert refused.returncode == 2
    assert "Redeliver 22 deliveries? Cannot ask" in refused.stderr
    assert set(states(tmp_path).values()) == {"dead"}
    done = symbi("webhook", "redeliver", "--status", "dead", "--yes", root=tmp_path)
    assert done.returncode == 1
    assert done.stdout == f"not queued  {ids[4]}  its body is no longer stored\n21 of 22 queued\n"
    shown = symbi("webhook", "show", ids[4], root=tmp_path)
    assert "(no body: its body is no longer stored)" in shown.stdout
    assert symbi("webhook", "show", ids[4], "--raw", root=tmp_path).returncode == 1


def test_what_waits_for_its_agent_is_redelivered_when_the_agent_is_back(tmp_path: Path) -> None:
    off = TWO.replace("agent reviewer {}", "agent reviewer {\n    enabled false\n}")
    write_program(tmp_path, off)
    with running(tmp_path, "program") as daemon:
        [delivery] = accepted(daemon, b'{"number":1}')
        assert states(tmp_path)[delivery] == "agent_gone"
        daemon.load(TWO)
        # It may be off on purpose: a person decides when to redeliver.
        time.sleep(0.5)
        assert states(tmp_path)[delivery] == "agent_gone"
        done = daemon.symbi("webhook", "redeliver", "--status", "agent_gone", "--since", "1h")
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "1 of 1 queued")
        handled(tmp_path, delivery)
        assert states(tmp_path)[delivery] == "done"


def test_one_whose_agent_is_not_there_is_not_queued(root_with_two: Path) -> None:
    [row] = asked(root_with_two, "deliveries", "--name", "github-events")["deliveries"]
    change(root_with_two, "UPDATE deliveries SET agent = 'gone' WHERE id = ?", row["id"])
    told = asked(root_with_two, "redeliver", row["id"], code=1)
    change(root_with_two, "UPDATE deliveries SET agent = 'reviewer' WHERE id = ?", row["id"])
    assert told["not_queued"] == [{"id": row["id"], "reason": "the agent gone is not declared"}]

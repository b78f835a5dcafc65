"""`symbi agent undo`: what one run wrote is taken back, in every store, with and without a daemon."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.lanes import LONG
from tests.runtime.agents.scripted import ScriptedModel, says
from tests.runtime.daemon.running import Daemon, running, symbi, until, write_program

PROGRAM = """\
memory notes {{ store {store} embedding hashing }}
{model}
webhook pushes {{ path "/hooks/github" provider github secret "secret://env/GITHUB_SECRET" agent keeper }}
agent helper {{ memory notes model scripted tools [archival_insert archival_replace memory_append] }}
agent keeper {{
    memory notes
    model  scripted
    thread keyed {{ json_path "$.repository" }}
    tools  [archival_insert memory_append]
}}
"""
STORES = ("markdown", "records", "collection")


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(says("Hello.")) as started:
        yield started


@pytest.fixture
def store() -> str:
    return "markdown"


@pytest.fixture
def daemon(model: ScriptedModel, store: str, tmp_path: Path) -> Iterator[Daemon]:
    write_program(tmp_path, PROGRAM.format(model=model.block, store=store))
    with running(tmp_path, "program") as started:
        yield started


def shown(daemon: Daemon, *arguments: str, code: int = 0) -> Any:
    done = daemon.symbi(*arguments, "--json")
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


def ran(daemon: Daemon, model: ScriptedModel, *replies: Any) -> str:
    """Let the agent reply so to a message, and return the run."""
    model.replies = [*replies, says("Done.")]
    return str(shown(daemon, "chat", "helper", "-m", "Go on.")["run"])


def undone(daemon: Daemon, run: str, code: int = 0) -> Any:
    return shown(daemon, "agent", "undo", run, "--yes", code=code)


def outcomes(answer: Mapping[str, Any]) -> list[str]:
    """Return the outcomes of items, then those of blocks."""
    items = [item["outcome"] for memory in answer["memories"] for item in memory["items"]]
    return sorted(items) + [block["outcome"] for block in answer["blocks"]]


def found(daemon: Daemon, agent: str = "helper") -> list[str]:
    """Return the texts that a search finds."""
    hits = shown(daemon, "memory", "search", agent, "lives")["hits"]
    return sorted(hit["item"]["text"] for hit in hits)


def human(daemon: Daemon) -> str:
    return str(shown(daemon, "agent", "block", "show", "helper", "human")["value"])


def inserts(text: str) -> str:
    return says(archival_insert={"content": text})


def appends(text: str) -> str:
    return says(memory_append={"label": "human", "content": text})


def replaces(text: str) -> Any:
    """Return a reply that replaces the item of the first insert in the thread."""

    def reply(body: Mapping[str, Any]) -> str:
        said = "\n".join(str(message["content"]) for message in body["messages"])
        return says(
            archival_replace={"memory_id": re.findall(r"memory_id\W+([0-9a-f-]{36})", said)[0], "content": text}
        )

    return reply


@pytest.mark.parametrize("store", STORES)
def test_what_a_run_wrote_is_taken_back_and_what_it_replaced_is_found_again(
    daemon: Daemon, model: ScriptedModel, store: str, tmp_path: Path
) -> None:
    first = ran(daemon, model, inserts("Ada lives in Lyon."))
    second = ran(daemon, model, replaces("Ada lives in Oslo."), inserts("Bob lives in Rome."), appends("Name: Ada"))
    assert found(daemon) == ["Ada lives in Oslo.", "Bob lives in Rome."]
    gone = "retracted" if store == "records" else "deleted"
    answer = undone(daemon, second)
    assert (answer["changed"], answer["complete"], answer["notes"]) == (True, True, [])
    assert outcomes(answer) == [gone, gone, "restored"]
    assert found(daemon) == ["Ada lives in Lyon."]
    assert human(daemon) == ""
    # A second time changes nothing.
    done = daemon.symbi("agent", "undo", second)
    assert done.returncode == 0, done.stderr
    assert "nothing was changed" in done.stdout
    # A retraction says so itself.
    told = "" if store == "records" else "2 items that the run stored were already taken back\n"
    assert done.stderr == told
    assert found(daemon) == ["Ada lives in Lyon."]
    assert daemon.stop() == 0
    done = symbi("agent", "undo", first, "--yes", root=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "memory notes" in done.stdout
    assert "1 item" in done.stdout
    done = symbi("memory", "search", "helper", "lives", "--json", root=tmp_path)
    assert json.loads(done.stdout)["hits"] == []


def test_a_block_that_was_edited_since_is_reported_and_left(daemon: Daemon, model: ScriptedModel) -> None:
    run = ran(daemon, model, appends("Name: Ada"), inserts("Ada lives in Lyon."))
    assert daemon.symbi("agent", "block", "edit", "helper", "human", "--value", "Name: Bob").returncode == 0
    done = daemon.symbi("agent", "undo", run, "--yes")
    assert done.returncode == 1, done.stderr
    assert "left: edited since" in done.stdout
    assert human(daemon) == "Name: Bob"
    assert found(daemon) == []


@pytest.mark.parametrize("store", STORES)
def test_an_item_that_another_run_replaced_since_is_reported_and_left(
    daemon: Daemon, model: ScriptedModel, store: str
) -> None:
    first = ran(daemon, model, inserts("Ada lives in Lyon."))
    second = ran(daemon, model, replaces("Ada lives in Oslo."))
    answer = undone(daemon, first, code=1)
    assert outcomes(answer) == ["replaced"]
    assert (answer["changed"], answer["complete"]) == (False, False)
    assert found(daemon) == ["Ada lives in Oslo."]
    assert outcomes(undone(daemon, second)) == ["retracted" if store == "records" else "deleted"]
    assert found(daemon) == ["Ada lives in Lyon."]


def test_it_asks_before_it_changes_anything(daemon: Daemon, model: ScriptedModel) -> None:
    run = ran(daemon, model, inserts("Ada lives in Lyon."), appends("Name: Ada"))
    done = daemon.symbi("agent", "undo", run)
    assert done.returncode == 2
    assert "1 item in the memory notes and the block human" in done.stderr
    assert "--yes" in done.stderr
    assert found(daemon) == ["Ada lives in Lyon."]
    assert human(daemon) == "Name: Ada"


def test_a_run_that_has_not_ended_is_refused(daemon: Daemon, model: ScriptedModel) -> None:
    going_on = threading.Event()

    def slow(_body: Any) -> str:
        going_on.wait(60)
        return says("Done.")

    model.replies = [inserts("Ada lives in Lyon."), slow]
    asking = threading.Thread(target=lambda: daemon.symbi("chat", "helper", "-m", "Go on."))
    asking.start()
    until(lambda: len(model.bodies) == 2, what="the second call of the model")
    (run,) = shown(daemon, "agent", "runs", "helper")["runs"]
    for arguments in ((), ("--yes",)):
        done = daemon.symbi("agent", "undo", run["run"], *arguments)
        assert (done.returncode, done.stdout) == (1, "")
        assert "has not ended: it is running" in done.stderr
        assert f"symbi agent cancel {run['run']}" in done.stderr
    going_on.set()
    asking.join(60)
    until(lambda: shown(daemon, "agent", "runs", "helper")["runs"][0]["ended"], what="the end of the run")
    assert outcomes(undone(daemon, run["run"])) == ["deleted"]


def test_a_run_of_another_user_is_not_found(daemon: Daemon, model: ScriptedModel) -> None:
    run = ran(daemon, model, inserts("Ada lives in Lyon."))
    assert daemon.symbi("user", "add", "bob").returncode == 0
    for arguments, said in (
        ((run, "--user", "bob"), f"there is no run {run}"),
        ((run, "--user", "bop"), "did you mean bob?"),
        (("none",), "there is no run none"),
    ):
        done = daemon.symbi("agent", "undo", *arguments, "--yes")
        assert done.returncode == 2
        assert said in done.stderr
    assert found(daemon) == ["Ada lives in Lyon."]
    model.replies = [inserts("Bob lives in Rome."), says("Done.")]
    theirs = shown(daemon, "chat", "helper", "-m", "Go on.", "--user", "bob")["run"]
    assert daemon.symbi("agent", "undo", theirs, "--yes").returncode == 2
    assert outcomes(shown(daemon, "agent", "undo", theirs, "--user", "bob", "--yes")) == ["deleted"]
    assert daemon.symbi("user", "remove", "bob", "--yes").returncode == 0
    done = daemon.symbi("agent", "undo", theirs, "--user", "bob", "--yes")
    assert done.returncode == 2
    assert "no user is called 'bob'" in done.stderr


def test_only_what_the_run_wrote_for_its_subject_is_taken_back(daemon: Daemon, model: ScriptedModel) -> None:
    for subject in ("tea", "coffee"):
        model.replies = [inserts("It lives."), appends(f"Likes {subject}"), says("Done.")]
        before = len(model.bodies)
        assert daemon.github(json.dumps({"repository": subject}).encode(), subject).status == 202
        until(lambda: len(model.bodies) == before + 3, what="the calls of the model")  # noqa: B023
        until(lambda: all(row["ended"] for row in shown(daemon, "agent", "runs")["runs"]), what="the end of the run")
    coffee, tea = shown(daemon, "agent", "runs", "keeper")["runs"]
    answer = undone(daemon, tea["run"])
    assert outcomes(answer) == ["deleted", "restored"]
    assert answer["blocks"][0]["subject"] == "tea"
    assert found(daemon, "keeper") == ["It lives."]
    block = shown(daemon, "agent", "block", "show", "keeper", "human", "--subject", "coffee")
    assert block["value"] == "Likes coffee [from a delivery of pushes]"
    assert outcomes(undone(daemon, coffee["run"])) == ["deleted", "restored"]


def test_a_memory_that_is_not_declared_any_more_is_said_in_one_line(
    daemon: Daemon, model: ScriptedModel, tmp_path: Path
) -> None:
    run = ran(daemon, model, inserts("Ada lives in Lyon."), appends("Name: Ada"))
    other = PROGRAM.format(model=model.block, store="records").replace("notes", "others")
    daemon.load(other)
    assert shown(daemon, "agent", "show", "helper")["memory"] == "others"
    done = daemon.symbi("agent", "undo", run, "--yes")
    assert done.returncode == 0, done.stderr
    (line,) = done.stderr.splitlines()
    assert line == (
        "an item that the run stored is in no memory of the program: deleted since, or the memory is not declared any "
        "more"
    )
    assert human(daemon) == ""
    daemon.load(PROGRAM.format(model=model.block, store="markdown"))
    assert shown(daemon, "agent", "show", "helper")["memory"] == "notes"
    assert outcomes(undone(daemon, run)) == ["deleted", "unchanged"]
    assert undone(daemon, run)["notes"] == ["an item that the run stored was already taken back"]


def test_a_memory_that_cannot_be_read_is_named_and_nothing_is_said_to_be_taken_back(
    daemon: Daemon, model: ScriptedModel, tmp_path: Path
) -> None:
    run = ran(daemon, model, inserts("Ada lives in Lyon."))
    (kept,) = tmp_path.rglob("memory.md")
    away = kept.rename(kept.with_name("away"))
    kept.mkdir()
    for arguments in ((), ("--yes",)):
        done = daemon.symbi("agent", "undo", run, *arguments)
        assert (done.returncode, done.stdout) == (1, "")
        assert str(kept) in done.stderr
    kept.rmdir()
    away.rename(kept)
    assert outcomes(undone(daemon, run)) == ["deleted"]


@pytest.mark.parametrize("store", STORES)
def test_two_undos_at_once_take_everything_back_once(daemon: Daemon, model: ScriptedModel, store: str) -> None:
    texts = [f"Ada lives in street {number}." for number in range(6)]
    run = ran(daemon, model, *map(inserts, texts), appends("Name: Ada"))
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda _: undone(daemon, run), range(2)))
    done = [each for answer in answers for each in outcomes(answer) if each != "unchanged"]
    assert sorted(done) == sorted(["retracted" if store == "records" else "deleted"] * 6 + ["restored"])
    assert found(daemon) == []
    assert human(daemon) == ""


def test_what_a_run_pushed_is_taken_back_but_not_what_was_there_before(model: ScriptedModel, tmp_path: Path) -> None:
    program = PROGRAM.format(model=model.block, store="markdown").replace("memory_append]", "push]", 1)
    write_program(tmp_path, program)
    with running(tmp_path, "program") as daemon:
        assert daemon.symbi("push", "-", input="Ada lives in Lyon.").returncode == 0
        there, new = "Ada lives in Lyon.", "Bob lives in Rome."
        run = ran(daemon, model, says(push={"items": [{"text": there, "tags": ["town"]}, {"text": new}]}))
        answer = undone(daemon, run)
        assert [item["text"] for memory in answer["memories"] for item in memory["items"]] == [new]
        hits = shown(daemon, "collection", "search", "lives")["hits"]
        assert [hit["text"] for hit in hits] == [there]


@LONG
def test_an_undo_of_which_the_daemon_is_killed_is_finished_by_a_repetition(
    model: ScriptedModel, tmp_path: Path
) -> None:
    texts = [f"Ada lives in street {number}." for number in range(40)]
    calls = [{"name": "archival_insert", "args": {"content": text}} for text in texts]
    write_program(tmp_path, PROGRAM.format(model=model.block, store="markdown"))
    with running(tmp_path, "program") as daemon:
        run = ran(daemon, model, json.dumps({"messages": [], "tool_calls": calls}))
        (kept,) = tmp_path.rglob("memory.md")
        assert kept.read_text().count("lives in") == 40
        undoing = threading.Thread(target=lambda: daemon.symbi("agent", "undo", run, "--yes"))
        undoing.start()
        until(lambda: kept.read_text().count("lives in") < 40, what="the first deletion")
        daemon.kill()
        # The command goes on without the daemon.
        undoing.join(60)
    with running(tmp_path, "program") as daemon:
        assert undone(daemon, run)["complete"]
        assert found(daemon) == []
        assert "lives in" not in kept.read_text()

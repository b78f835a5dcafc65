"""What an agent finds of earlier conversations: what was said there, never its own questions and searches, and nothing
that was deleted."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lanes import LONG
from tests.runtime.agents.scripted import ScriptedModel, says
from tests.runtime.daemon.running import Daemon, on_postgres, running, until, write_program
from tests.runtime.daemon.v1 import ask, make_token

PROGRAM = """\
memory notes {{ store {store} }}
{model}
agent helper {{
    memory notes
    model  scripted
    tools  [conversation_search archival_insert archival_search archival_forget]
}}
"""
FACT = "The vault codeword is ZEBRAFISH, chosen by Ada on Monday."
QUESTION = "What is the vault codeword?"
SECRET = "HYPERTENSION-X"


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(says("Noted.")) as started:
        yield started


@pytest.fixture
def store() -> str:
    return "collection"


@pytest.fixture
def database() -> str:
    return "sqlite"


@pytest.fixture
def daemon(
    model: ScriptedModel, store: str, database: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Daemon]:
    write_program(tmp_path, PROGRAM.format(model=model.block, store=store))
    variables = on_postgres(request.getfixturevalue("postgres_url")) if database == "postgresql" else {}
    with running(tmp_path, "program", wait=True, EMBEDDING_PROVIDER="local", **variables) as started:
        yield started


ON_BOTH = pytest.mark.parametrize(
    ("store", "database"),
    [("markdown", "sqlite"), pytest.param("collection", "postgresql", marks=LONG)],
)


def asked(daemon: Daemon, *arguments: str) -> Any:
    done = daemon.symbi("chat", *arguments, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def searches(daemon: Daemon, model: ScriptedModel, query: str, *more: str, tool: str = "conversation_search") -> Any:
    """Let the agent search once, and return what it read."""
    model.replies = [says(**{tool: {"query": query}}), says("That is all.")]
    (called,) = asked(daemon, *(more or ("-m", QUESTION)))["tool_calls"]
    assert called["status"] == "ok", called
    return json.loads(called["output"])


def everything(daemon: Daemon) -> str:
    """Return what the threads of the user have, as each surface shows it."""
    listed = json.loads(daemon.symbi("thread", "list", "--json").stdout)
    threads = [each["conversation_id"] for each in listed["conversations"]]
    shown = [daemon.symbi("thread", action, each).stdout for each in threads for action in ("show", "export")]
    return "\n".join(shown)


def test_the_same_question_finds_the_fact_first_each_time(daemon: Daemon, model: ScriptedModel) -> None:
    asked(daemon, "--new", "-m", FACT)
    until(lambda: FACT in json.dumps(searches(daemon, model, "vault codeword", "--new", "-m", "Hm.")))
    for _ in range(10):
        hits = searches(daemon, model, "what is the vault codeword")["hits"]
        assert hits[0]["text"] == FACT
        assert {hit.get("role") for hit in hits} <= {"user", "assistant", None}
        assert QUESTION not in [hit["text"] for hit in hits[:-1]]


@ON_BOTH
def test_a_deleted_conversation_is_read_nowhere(daemon: Daemon, model: ScriptedModel) -> None:
    model.replies = [says("Noted.")]
    told = asked(daemon, "--new", "-m", f"My diagnosis is {SECRET}.")["thread"]
    kept = asked(daemon, "--new", "-m", "My diagnosis of the car is RUST.")["thread"]
    until(lambda: SECRET in json.dumps(searches(daemon, model, "diagnosis", "-m", "Which diagnosis?")))
    assert SECRET in everything(daemon)
    done = daemon.symbi("thread", "delete", told, "--yes")
    assert done.returncode == 0, done.stderr
    assert SECRET not in everything(daemon)
    # What was found beside it stays.
    texts = [
        hit.get("text") for hit in quoted(daemon) if hit["position"] == 0 and hit["conversation_id"] in (told, kept)
    ]
    assert texts == [None, "My diagnosis of the car is RUST."]
    found = searches(daemon, model, "diagnosis")
    assert SECRET not in json.dumps(found)
    assert SECRET not in model.texts(-1)
    assert "RUST" in model.texts(-1)


def quoted(daemon: Daemon) -> list[dict[str, Any]]:
    """Return the hits of the first output that has some, in the order of their conversations."""
    lines = [json.loads(line) for line in exported(daemon).splitlines()]
    outputs = [line["output"] for line in lines if line.get("type") == "function_call_output"]
    hits = next(found for output in outputs if (found := json.loads(output)["hits"]))
    return sorted(hits, key=lambda hit: str(hit["conversation_id"]))


def exported(daemon: Daemon) -> str:
    """Return the main thread, as it is exported."""
    listed = json.loads(daemon.symbi("thread", "list", "--json").stdout)
    (main,) = [each["conversation_id"] for each in listed["conversations"] if each["kind"] == "main"]
    return daemon.symbi("thread", "export", main).stdout


@ON_BOTH
def test_no_output_has_what_was_deleted_in_any_way(daemon: Daemon, model: ScriptedModel) -> None:
    ways = ("forgotten by the agent", "edited", "forgotten", "undone", "purged")
    told = asked(daemon, "--new", "-m", "The illness that was deleted as a message is COUGH-0.")["thread"]
    items, runs = {}, {}
    for number, way in enumerate(ways, 1):
        model.replies = [
            says(archival_insert={"content": f"The illness that is {way} is COUGH-{number}."}),
            says("Ok."),
        ]
        answer = asked(daemon, "--new", "-m", "Remember it.")
        runs[way] = answer["run"]
        items[way] = json.loads(answer["tool_calls"][0]["output"])["memory_id"]

    def known(tool: str, count: int) -> bool:
        found = json.dumps(searches(daemon, model, "illness deleted", tool=tool))
        return found.count("COUGH-") >= count

    until(lambda: known("archival_search", len(ways)))
    until(lambda: known("conversation_search", 1))

    def left() -> set[str]:
        """Return the numbers that the outputs have."""
        lines = [json.loads(line) for line in exported(daemon).splitlines()]
        outputs = json.dumps([line for line in lines if line.get("type") == "function_call_output"])
        return set(re.findall(r"COUGH-(\d)", outputs))

    def do(*arguments: str) -> None:
        done = daemon.symbi(*arguments)
        assert done.returncode == 0, done.stderr

    assert left() == set("012345")
    token = make_token(daemon, "--scope", "admin")
    listed = ask(daemon, token, "GET", f"/v1/agent/conversations/{told}/items").json()["data"]
    [item] = [each["id"] for each in listed if "COUGH-0" in json.dumps(each)]
    assert ask(daemon, token, "DELETE", f"/v1/agent/conversations/{told}/items/{item}").status == 200
    assert left() == set("12345")
    model.replies = [says(archival_forget={"memory_id": items["forgotten by the agent"]}), says("Ok.")]
    asked(daemon, "--new", "-m", "Forget it.")
    assert left() == set("2345")
    do("memory", "edit", items["edited"], "He is well.")
    assert left() == set("345")
    do("memory", "forget", items["forgotten"], "--yes")
    assert left() == set("45")
    do("agent", "undo", runs["undone"], "--yes")
    assert left() == set("5")
    do("memory", "purge", "helper", "--yes")
    assert left() == set()
    assert searches(daemon, model, "illness deleted", tool="archival_search")["hits"] == []
    texts = [hit["text"] for hit in searches(daemon, model, "illness deleted")["hits"]]
    assert not [text for text in texts if "COUGH-0" in text]

"""What an agent stores for one subject of keyed threads as tasks and in the key-value store, it finds for that one
alone; people and the user's other agents see it all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.lanes import LONG
from tests.runtime.agents.scripted import ScriptedModel, says
from tests.runtime.daemon.running import Daemon, running, until, write_program

PROGRAM = """\
memory notes {{ path "notes" embedding hashing }}
{model}
webhook pushes {{ path "/hooks/github" provider github secret "secret://env/GITHUB_SECRET" agent keeper }}
agent helper {{ memory notes model scripted main true tools ["task_*" agent_memory_get agent_memory_set] }}
agent keeper {{
    memory notes
    model  scripted
    thread keyed {{ json_path "$.customer" }}
    tools  ["task_*" task_delete agent_memory_get agent_memory_set agent_memory_delete agent_memory_kv_export]
}}
"""


def shown(daemon: Daemon, *arguments: str) -> Any:
    done = daemon.symbi(*arguments, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def outputs(daemon: Daemon, model: ScriptedModel, customer: str | None, *calls: tuple[str, dict[str, Any]]) -> str:
    """Let a delivery of a customer wake the agent, which makes these calls; return what the model reads of them."""
    made = [{"name": name, "args": given} for name, given in calls]
    model.replies = [json.dumps({"messages": [], "tool_calls": made}), says("Done.")]
    before = len(model.bodies)
    body = {} if customer is None else {"customer": customer}
    assert daemon.github(json.dumps(body).encode(), f"{before}").status == 202
    until(lambda: len(model.bodies) == before + 2, what="the calls of the model")
    until(lambda: all(row["ended"] for row in shown(daemon, "agent", "runs")["runs"]), what="the end of the run")
    return model.texts(before + 1).rpartition("has arrived")[2]


def stored(customer: str) -> tuple[tuple[str, dict[str, Any]], ...]:
    given = {"title": f"Call about {customer}", "tags": ["calls"], "priority": "urgent"}
    return ("task_create", given), ("agent_memory_set", {"key": "mood", "value": f"mood of {customer}", "tags": ["m"]})


READING: tuple[tuple[str, dict[str, Any]], ...] = (
    ("task_list", {}),
    ("task_list", {"tags": ["calls"], "status": "pending"}),
    ("task_search", {"query": "call about"}),
    ("agent_memory_get", {"key": "mood"}),
    ("agent_memory_get", {"tags": ["m"]}),
    ("agent_memory_kv_export", {}),
)


@LONG
def test_a_run_of_one_subject_never_meets_the_tasks_and_entries_of_another(tmp_path: Path) -> None:
    with ScriptedModel(says("Hello.")) as model:
        write_program(tmp_path, PROGRAM.format(model=model.block))
        with running(tmp_path, "program") as daemon:
            assert daemon.symbi("task", "add", "Call about everything", "--tag", "calls").returncode == 0
            assert daemon.symbi("kv", "set", "mood", '"mood of everything"', "--tag", "m").returncode == 0
            for customer in ("ada", "bob"):
                outputs(daemon, model, customer, *stored(customer))
            tasks = {row["subject"]: row for row in shown(daemon, "task", "list")["tasks"]}
            assert set(tasks) == {None, "ada", "bob"}
        with running(tmp_path, "program") as daemon:
            # Whatever it names: its own subject alone, in both directions.
            for customer, other in (("ada", "bob"), ("bob", "ada")):
                read = outputs(daemon, model, customer, *READING)
                assert read.count(f"mood of {customer}") == 3, read
                assert read.count(f"Call about {customer}") == 3, read
                assert f"about {other}" not in read
                assert f"of {other}" not in read
                assert "everything" not in read
            absent = [{"task_id": tasks[each]["task_id"]} for each in ("bob", None)]
            read = outputs(
                daemon,
                model,
                "ada",
                *(("task_show", each) for each in absent),
                *(("task_update", {**each, "title": "Mine"}) for each in absent),
                *(("task_complete", each) for each in absent),
                *(("task_delete", each) for each in absent),
                ("task_bulk_update", {"task_ids": [each["task_id"] for each in absent], "status": "cancelled"}),
                ("agent_memory_set", {"key": "mood", "value": "better", "if_version": 0}),
                ("agent_memory_delete", {}),
                ("agent_memory_delete", {"tags": ["m"]}),
            )
            assert read.count("there is no such task") == 8 + 3, read
            assert "give either key or tags" in read
            entries = shown(daemon, "kv", "list")["entries"]
            assert [(row["subject"], row["value"]) for row in entries] == [
                (None, "mood of everything"),
                ("bob", "mood of bob"),
            ]
            rows = {row["subject"]: row for row in shown(daemon, "task", "list", "--all")["tasks"]}
            assert [rows[each] for each in tasks] == list(tasks.values())
            # A delivery that names no subject has what belongs to none.
            read = outputs(daemon, model, None, *READING)
            assert read.count("mood of everything") == 3
            assert read.count("Call about everything") == 3
            assert "of bob" not in read
            assert "about bob" not in read
            # The agents of the user without subjects, and the user, have everything.
            model.replies = [
                json.dumps({"messages": [], "tool_calls": [{"name": "task_list", "args": {}}]}),
                says("Ok."),
            ]
            assert daemon.symbi("chat", "helper", "-m", "Hello").returncode == 0
            assert "urgent; of the subject bob; from a delivery of pushes)" in model.texts(-2)
            assert '"subject":"bob"' in model.texts(-1)
            for customer in ("ada", "bob"):
                assert [row["subject"] for row in shown(daemon, "task", "list", "--subject", customer)["tasks"]] == [
                    customer
                ]
            assert shown(daemon, "kv", "get", "mood", "--subject", "bob")["value"] == "mood of bob"
            urgent = shown(daemon, "agent", "context", "helper")["urgent_tasks"]
            assert {row["subject"] for row in urgent} == {"ada", "bob"}
            assert " bob" in daemon.symbi("task", "list").stdout
            assert " bob" in daemon.symbi("kv", "list").stdout
            # Bob is forgotten.
            assert daemon.symbi("task", "rm", "--subject", "bob", "--yes").stdout == "deleted 1 task\n"
            assert daemon.symbi("kv", "delete", "--subject", "bob", "--yes").stdout == "deleted 1 entry\n"
            read = outputs(daemon, model, "bob", *READING)
            assert "of bob" not in read
            assert "about bob" not in read
        with running(tmp_path, "program") as daemon:
            assert {row["subject"] for row in shown(daemon, "task", "list")["tasks"]} == {None, "ada"}
            assert [row["subject"] for row in shown(daemon, "kv", "list")["entries"]] == [None]

"""A call that may not be repeated, begun and not recorded when the daemon was killed: it happens at most once, and the
agent is told that it may have."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from runtime.agents.loop.call import UNKNOWN
from tests.lanes import LONG
from tests.runtime.agents.scripted import ScriptedModel, calling, says
from tests.runtime.daemon import held_call
from tests.runtime.daemon.running import running, until, write_program

pytestmark = LONG

HELD = f"{held_call.__name__}:{held_call.held.__name__}"
PROGRAM = """\
memory notes {{ path "notes" embedding hashing }}
{model}
agent helper {{ memory notes model scripted tool_calling {calling} tools [memory_append webhook_create] }}
"""
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("memory_append", {"label": "human", "content": "Wants a webhook."}),
    ("webhook_create", {"title": "Nightly build", "agent": None}),
)


@pytest.mark.parametrize("form", ["json", "native"])
@pytest.mark.parametrize(("killed", "made"), [("before", 0), ("after", 1)])
def test_a_call_that_was_begun_and_not_recorded_is_unknown_and_made_at_most_once(
    tmp_path: Path, form: str, killed: str, made: int
) -> None:
    replies = (
        [calling(*CALLS), calling(text="I am not sure.")]
        if form == "native"
        else [says(**dict(CALLS)), says("I am not sure.")]
    )
    mark = tmp_path / "held"
    with ScriptedModel(*replies) as model, ThreadPoolExecutor(1) as pool:
        write_program(tmp_path, PROGRAM.format(model=model.block, calling=form))
        with running(tmp_path, "program", command=HELD, HELD=killed, HELD_FILE=str(mark)) as daemon:
            question = pool.submit(daemon.symbi, "chat", "-m", "Create a webhook.", "--json")
            until(mark.exists, what="the call")
            daemon.kill()
        with running(tmp_path, "program") as daemon:
            done = question.result(120)
            listed = daemon.symbi("webhook", "list", "--json")
            block = daemon.symbi("agent", "block", "show", "helper", "human")
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        appended, created = answer["tool_calls"]
        assert (appended["name"], appended["status"]) == ("memory_append", "ok")
        assert (created["name"], created["status"], created["output"]) == ("webhook_create", "unknown", UNKNOWN)
        assert (answer["ended"], answer["messages"]) == ("answered", ["I am not sure."])
        assert [row["title"] for row in json.loads(listed.stdout)["webhooks"]] == ["Nightly build"] * made
        assert block.stdout.count("Wants a webhook.") == 1
        assert len(model.bodies) == 2
        told = model.texts(1)
    assert ("status: unknown" if form == "native" else 'status="unknown"') in told
    assert UNKNOWN in told

"""A secret that an agent's call made is read by one person, once, and stands in nothing that is kept."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.runtime.agents.scripted import ScriptedModel, says
from tests.runtime.daemon.running import Daemon, running, write_program
from tests.runtime.daemon.v1 import Made, ask, make_token

PROGRAM = """\
memory notes {{ store markdown }}
{model}
agent helper {{ memory notes model scripted tools [webhook_create webhook_rotate_secret] }}
"""


def rotates(body: Mapping[str, Any]) -> str:
    """Return a reply that rotates the secret of the webhook that was made before."""
    said = "\n".join(str(message["content"]) for message in body["messages"])
    return says(webhook_rotate_secret={"webhook_id": re.findall(r"webhook_id\W+([0-9a-f-]{36})", said)[-1]})


def shown(daemon: Daemon, webhook_id: str) -> str:
    done = daemon.symbi("webhook", "secret", webhook_id)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def refused(daemon: Daemon, webhook_id: str) -> None:
    done = daemon.symbi("webhook", "secret", webhook_id)
    assert done.returncode == 1
    assert "was shown before" in done.stderr
    assert f"symbi webhook rotate {webhook_id}" in done.stderr


def test_a_secret_that_an_agent_made_is_shown_to_a_person_once_and_kept_nowhere(tmp_path: Path) -> None:
    with ScriptedModel(says("Done.")) as model:
        write_program(tmp_path, PROGRAM.format(model=model.block))
        with running(tmp_path, "program") as daemon:
            model.replies = [says(webhook_create={"title": "Builds", "agent": None}), says("Done.")]
            answer = json.loads(daemon.symbi("chat", "-m", "Make one.", "--json").stdout)
            (called,) = answer["tool_calls"]
            made = json.loads(called["output"])
            assert f"symbi webhook secret {made['webhook_id']}" in called["output"]
            first = shown(daemon, made["webhook_id"])
            assert first.startswith("whsec_")
            refused(daemon, made["webhook_id"])
            assert Made(daemon, made["webhook_id"], first).post().status == 202

            model.replies = [rotates, says("Done.")]
            run = json.loads(daemon.symbi("chat", "-m", "Another one.", "--json").stdout)
            second = shown(daemon, made["webhook_id"])
            assert second != first
            refused(daemon, made["webhook_id"])
            assert Made(daemon, made["webhook_id"], second).post(b'{"b":1}').status == 202

            reader = make_token(daemon, "--scope", "read")
            thread = run["thread"]
            read = [
                ask(daemon, reader, "GET", path).body.decode()
                for path in (
                    f"/v1/agent/conversations/{thread}/items",
                    f"/v1/agent/chat/{run['run']}",
                    "/v1/agent/events?after=0",
                    f"/v1/webhooks/{made['webhook_id']}",
                )
            ]
            assert "webhook_rotate_secret" in read[0]
            kept = [daemon.symbi("thread", action, thread).stdout for action in ("show", "export")]
            assert "whsec_" not in "\n".join((*read, *kept, json.dumps(model.bodies), daemon.log.read_text()))


def test_a_person_gets_the_secret_in_the_answer_and_not_again(tmp_path: Path) -> None:
    write_program(tmp_path, "agent keeper {}\n")
    with running(tmp_path, "program") as daemon:
        done = daemon.symbi("webhook", "create", "Builds", "--keep-only", "--json")
        made = json.loads(done.stdout)
        assert made["secret"].startswith("whsec_")
        refused(daemon, made["webhook_id"])
        assert daemon.symbi("webhook", "secret", "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60").returncode == 2

"""What a user keeps as texts is bounded: memories, collections, conversations. Deliveries are accepted nevertheless."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.lanes import LONG
from tests.runtime.agents.scripted import ScriptedModel, says
from tests.runtime.daemon.running import Daemon, running, until, write_program
from tests.runtime.daemon.v1 import ask, make_token

pytestmark = LONG

PROGRAM = """\
memory notes {{ store collection {{ chunk_size 20000 chunk_overlap 0 }} embedding hashing }}
memory diary {{ store markdown path "diary" embedding hashing }}
{model}
agent main {{ memory notes model scripted tools [archival_insert] }}
agent clerk {{ memory notes model scripted tools [archival_insert] }}
agent reviewer {{ memory diary }}
webhook recorded {{ path "/hooks/github" provider github secret "secret://env/GITHUB_SECRET" agent reviewer }}
webhook answered {{ path "/hooks/clerk" provider github secret "secret://env/GITHUB_SECRET" agent clerk }}
"""
LIMIT = 1_000_000
SIZE = 180_000


class Client:
    """A user's calls of tools over HTTP."""

    def __init__(self, daemon: Daemon, token: str) -> None:
        self.daemon, self.token = daemon, token

    def call(self, tool: str, **given: Any) -> Any:
        """Return the result, or the problem."""
        return ask(self.daemon, self.token, "POST", f"/v1/tools/{tool}", given).json()

    def push(self, number: int, count: int = 2) -> Any:
        words = [f"word{number:02}{place:06}" for place in range(SIZE // 13)]
        texts = [" ".join(words[part::count]) for part in range(count)]
        return self.call("push", collection="notes", items=[{"text": text} for text in texts])

    def write(self, number: int) -> Any:
        return self.call("memory_write", agent="reviewer", memory="diary", text=f"{number} {'word ' * (SIZE // 5)}")

    def say(self, number: int) -> Any:
        return self.call("agent_chat", agent="main", input=f"{number} {'word ' * (SIZE // 5)}", wait=60)

    def until_full(self, kind: str) -> Any:
        """Store texts of a kind until one is refused; return the problem."""
        for number in range(LIMIT // SIZE + 1):
            answer = getattr(self, kind)(number)
            if answer.get("code") == "quota_exceeded":
                assert number >= LIMIT // SIZE * 0.6, answer
                return answer
            assert "status" not in answer, answer
        raise AssertionError(f"{kind} was never refused")

    def items(self) -> int:
        return sum(row["items"] for row in self.call("get-collections")["collections"])

    def make_room(self, kind: str) -> None:
        """Delete what was stored of a kind."""
        if kind == "say":
            [one] = self.call("agent_conversation_list", agent="main")["conversations"]
            self.call("agent_conversation_delete", agent="main", conversation_id=one["conversation_id"], force=True)
        elif kind == "push":
            for hit in self.call("search", query_text="word00000001", limit=100)["hits"]:
                self.call("forget", memory_id=hit["memory_id"])
        else:
            for item in self.call("memory_list", agent="reviewer", limit=100)["items"]:
                self.call("memory_forget", memory_id=item["memory_id"])


@pytest.fixture
def model() -> Any:
    with ScriptedModel(says("Noted.")) as started:
        yield started


def used(daemon: Daemon, user: str, **environ: str) -> Any:
    return json.loads(daemon.symbi("user", "show", user, "--json", **environ).stdout)["storage"]["text_bytes"]


def has_run(daemon: Daemon, agent: str, **environ: str) -> bool:
    runs = json.loads(daemon.symbi("agent", "runs", agent, "--json", **environ).stdout)["runs"]
    return [run["state"] for run in runs] == ["done"]


def test_texts_are_refused_at_the_limit_of_their_user_alone_and_deletions_make_room(
    model: ScriptedModel, tmp_path: Path, environ: dict[str, str]
) -> None:
    write_program(tmp_path, PROGRAM.format(model=model.block))
    environ |= {"SYMBIONT_TIER_FREE": "texts=1MB"}
    with running(tmp_path, "program", wait=True, **environ) as daemon:
        tokens = {"owner": make_token(daemon, "--scope", "write", **environ)}
        for name in ("ada", "bob"):
            daemon.symbi("user", "add", name, **environ)
            tokens[name] = make_token(daemon, "--user", name, "--scope", "write", **environ)
        ada, bob = Client(daemon, tokens["ada"]), Client(daemon, tokens["bob"])
        for kind, what in (("write", "memories"), ("say", "conversations"), ("push", "memories")):
            problem = ada.until_full(kind)
            assert (problem["status"], problem["title"]) == (409, "The storage of the user is full")
            assert problem["detail"].startswith("1 MB of texts may be stored, ")
            assert re.search(rf"({what}|written since these were measured) \d", problem["detail"])
            assert problem["hint"].startswith("delete items of memories and collections, or conversations")
            # What would be too much is refused as a whole, whichever way it enters; others are not affected.
            before = ada.items()
            for other in ("write", "say", "push"):
                assert getattr(ada, other)(99)["code"] == "quota_exceeded"
            assert ada.items() == before
            assert bob.call("memory_write", agent="reviewer", text=f"Bob writes {kind}.")["outcome"] == "stored"
            if kind != "push":
                ada.make_room(kind)
                until(lambda: "status" not in ada.push(0, 1), what="room")
                ada.make_room("push")

        # The owner's deliveries: a recorder records them, and a run goes on when its tool is refused.
        owner = Client(daemon, tokens["owner"])
        owner.until_full("push")
        model.replies = [says(archival_insert={"content": "x" * SIZE}), says("I could not keep it.")]
        for path, agent in (("/hooks/github", "reviewer"), ("/hooks/clerk", "clerk")):
            assert daemon.github(b'{"action":"opened"}', f"id-{agent}", path=path).status < 300
            until(partial(has_run, daemon, agent, **environ), what=f"the end of the run of {agent}")
        assert "quota_exceeded" in model.texts(-1) or "may be stored" in model.texts(-1)
        assert "opened" in "".join(file.read_text() for file in (tmp_path / "diary").rglob("*.md"))
    with running(tmp_path, "program", wait=True, **environ) as daemon:
        ada.daemon = owner.daemon = daemon
        for client, name in ((ada, "ada"), (owner, "owner")):
            assert LIMIT - SIZE <= used(daemon, name, **environ) <= LIMIT + 2 * SIZE
            assert client.push(98)["code"] == "quota_exceeded"
        ada.make_room("push")
        until(lambda: "status" not in ada.push(97), what="room after a restart")
        use = {each["limit"]: each for each in ada.call("agent_usage")["limits"]}["texts"]
        assert (use["user"], use["most"]) == ("ada", LIMIT)

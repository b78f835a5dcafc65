"""Kill -9 while copies of something that is deleted are deleted from outputs of tools."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

from runtime.daemon.process.root import Root
from runtime.daemon.process.settings import ProcessSettings
from runtime.daemon.program.app import App
from runtime.database.schema import OWNER
from runtime.threads.content import ToolOutputPart
from runtime.threads.messages import NewMessage
from tests.lanes import LONG
from tests.runtime.agents.scripted import ScriptedModel, says
from tests.runtime.daemon.running import Daemon, running, until, write_program

PROGRAM = """\
memory notes {{ store markdown embedding hashing }}
{model}
agent helper {{ memory notes model scripted tools [archival_insert archival_search] }}
"""
OUTPUTS = 4000
SECRET = "HYPERTENSION-X"


@LONG
def test_a_kill_leaves_no_copy_of_what_is_gone(tmp_path: Path) -> None:
    """An item goes last, so a person sees it until no output quotes it, and a second try goes on. A thread goes first,
    and the next daemon goes on by itself."""
    with ScriptedModel(says(archival_insert={"content": f"Ada has {SECRET}."}), says("Noted.")) as model:
        write_program(tmp_path, PROGRAM.format(model=model.block))
        with running(tmp_path, "program") as daemon:
            told = chatted(daemon, "--new", "-m", "Remember it.")
            memory_id = json.loads(told["tool_calls"][0]["output"])["memory_id"]
            thread_id = chatted(daemon, "--new", "-m", f"I have {SECRET}, you know.")["thread"]
        asyncio.run(quote(tmp_path, memory_id, thread_id))
        assert asyncio.run(copies(tmp_path)) == {memory_id: OUTPUTS, thread_id: OUTPUTS}

        killed(tmp_path, "memory", "forget", memory_id, "--yes")
        assert asyncio.run(copies(tmp_path))[memory_id] < OUTPUTS
        with running(tmp_path, "program") as daemon:
            assert memory_id in daemon.symbi("memory", "list", "--json").stdout
            done = daemon.symbi("memory", "forget", memory_id, "--yes")
            assert done.returncode == 0, done.stderr
        assert asyncio.run(copies(tmp_path)) == {thread_id: OUTPUTS}

        killed(tmp_path, "thread", "delete", thread_id, "--yes")
        assert 0 < asyncio.run(copies(tmp_path))[thread_id] < OUTPUTS
        with running(tmp_path, "program") as daemon:
            assert thread_id not in daemon.symbi("thread", "list", "--json").stdout
            until(lambda: not marked(tmp_path), what="the rest of the deletion")
        assert not asyncio.run(copies(tmp_path))


def chatted(daemon: Daemon, *arguments: str) -> Any:
    done = daemon.symbi("chat", "helper", *arguments, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


async def quote(root: Path, memory_id: str, thread_id: str) -> None:
    """Store outputs that quote an item, and as many that quote a thread."""
    hits: list[dict[str, object]] = [{"memory_id": memory_id}, {"conversation_id": thread_id, "position": 0}]
    outputs = [json.dumps({"hits": [{**hit, "text": f"Who has {SECRET}?"}]}) for hit in hits] * OUTPUTS
    parts = [ToolOutputPart("call", "archival_search", output) for output in outputs]
    new = [NewMessage(role="tool", kind="tool_output", parts=(part,), tokens=40) for part in parts]
    async with App.open(Root(root), ProcessSettings.read({})) as app:
        thread = await app.state.services.threads.conversation(OWNER, "helper")
        await app.state.services.messages.append(thread, new)


async def copies(root: Path) -> Counter[str]:
    """Return how many outputs quote each id with its text."""
    async with App.open(Root(root), ProcessSettings.read({})) as app:
        threads = await app.state.services.threads.list(OWNER, agent="helper", limit=100)
        found = [await app.state.services.messages.read(thread, limit=3 * OUTPUTS) for thread in threads]
    outputs = [each.text for messages in found for each in messages if each.kind == "tool_output"]
    hits = [hit for output in outputs if SECRET in output for hit in json.loads(output)["hits"]]
    return Counter(hit.get("memory_id") or hit["conversation_id"] for hit in hits)


def killed(root: Path, *command: str) -> None:
    """Kill the daemon while it carries out a command, as soon as the first output has changed."""
    with running(root, "program") as daemon:
        before = first_outputs(root)
        commanded = threading.Thread(target=daemon.symbi, args=command)
        commanded.start()
        until(lambda: first_outputs(root) != before, what="the first change", pause=0)
        daemon.kill()
        commanded.join()


def first_outputs(root: Path) -> list[Any]:
    """Return the sealed outputs that change first: that of the call and the first quote of each kind. They are read
    faster than the others change."""
    return rows(root, "SELECT content FROM messages WHERE kind = 'tool_output' ORDER BY id LIMIT 3")


def marked(root: Path) -> list[Any]:
    """Return the threads whose rest is being deleted."""
    return rows(root, "SELECT id FROM threads WHERE kind = 'deleted'")


def rows(root: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(root / ".symbi/symbiont.db", timeout=60)) as database:
        return database.execute(query).fetchall()

"""Users of one daemon: everything that the first of them has is found by the words and ids in `marks`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final
from urllib.parse import quote, urlencode

from runtime.api.rest.endpoints import Endpoint
from runtime.identity.caller import SCOPES, Scope
from runtime.tools import TOOLS
from tests.runtime.agents.scripted import ScriptedModel
from tests.runtime.attacks.wire import operate, tables
from tests.runtime.daemon.running import Answer, Daemon, until
from tests.runtime.daemon.v1 import ask, make_webhook

WORD: Final = "zaphodquartz"
"""In every text of the first user."""
TAG: Final = "taggedby-zaphod"
PROJECT: Final = "projectof-zaphod"
SOURCE: Final = "file:///sourceof-zaphod"
SUBJECT: Final = "subjectof-zaphod"
KEY: Final = "keyof/zaphod"
EXAMPLE_KEY: Final = str((TOOLS["agent_memory_set"].example or {})["key"])
"""Users have an entry with this key too."""
OWNER: Final = "adelheid"
OTHER: Final = "bertram"
TWIN: Final = "cornelia"
"""Does what the other user does, with names that nobody has: both must get the same answers."""
NEW: Final = "dorothea"
"""Has nothing, and writes nothing with a name."""
SCOPED: Final = "emmeline"
"""Tries every scope."""
USERS: Final = (OWNER, OTHER, TWIN, NEW, SCOPED)
PROGRAM: Final = """\
{model}
memory notes {{ path "notes" embedding hashing }}
memory archive {{ path "archive" embedding hashing }}
agent reviewer {{ memory notes model scripted main true confirm [memory_append memory_insert] }}
agent planner {{ memory notes model scripted }}
"""
_VECTORS: Final = re.compile(r'"\d+ of \d+ items ha[^"]* no vector[^"]*",?')
_DIFFERING: Final = {
    "SECRET": re.compile(r'"secret":"[^"]*"'),
    "VERSION": re.compile(r'"version":1\d{12}\b'),
    "ID": re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
    "TIME": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)"),
}


@dataclass
class World:
    """A daemon with its users. `ids`: what the first one has."""

    daemon: Daemon
    model: ScriptedModel
    tokens: dict[tuple[str, Scope], str]
    ids: dict[str, str] = field(default_factory=dict)

    @cached_property
    def user_id(self) -> str:
        """The id of the first user."""
        known = {row["user"]: row["id"] for row in operate(self.daemon, "user_list", {}).json()["users"]}
        return str(known[OWNER])

    @property
    def marks(self) -> tuple[str, ...]:
        """Texts of the first user that nobody else writes."""
        return (WORD, OWNER, self.user_id, *self.ids.values())

    def leaks(self, answer: Answer, *given: Any, user: str = OTHER) -> set[str]:
        """Return what of the first user is in an answer to another one, but for the values that were given."""
        text = answer.body.decode()
        for value in given:
            text = text.replace(json.dumps(value)[1:-1], "")
        named = (TAG, PROJECT, SOURCE, SUBJECT, KEY) if user in {NEW, OWNER} else ()
        return {mark for mark in (*self.marks, *named) if mark in text}

    def call(self, row: Endpoint, given: Mapping[str, Any], *, user: str = OTHER, scope: Scope = "write") -> Answer:
        """Return the answer of a route for these parameters of its tool."""
        token = self.tokens[user, scope]
        given = {"agent": "reviewer"} | dict(given)
        in_path = {"key": EXAMPLE_KEY} | given
        path = row.path.format_map({name: quote(str(in_path[name]), safe="") for name in row.in_path})
        rest = {name: value for name, value in given.items() if name in row.others}
        if row.body:
            return ask(self.daemon, token, row.method, path, rest)
        query = urlencode({name: _in_query(value) for name, value in rest.items()}, doseq=True)
        return ask(self.daemon, token, row.method, f"{path}?{query}" if query else path)

    def shape(self, answer: Answer) -> tuple[int, str]:
        """Return status and body of an answer without what differs between two users who do the same: their own names,
        names that are known or not, new ids and secrets, times, and whether the newest items have their vectors
        already."""
        text = _VECTORS.sub("", answer.body.decode())
        for name in (TAG, PROJECT, SOURCE, SUBJECT, KEY, OWNER, OTHER, TWIN, *self.ids.values()):
            for value in (name, unknown(name)):
                text = text.replace(json.dumps(value)[1:-1], "NAME")
        for what, pattern in _DIFFERING.items():
            text = pattern.sub(what, text)
        return answer.status, text

    def fingerprint(self) -> Mapping[str, Any]:
        """Return everything that the first user has, to be compared."""
        found = tables(self.daemon, self.user_id)
        found["files"] = sorted(
            line
            for file in self.daemon.root.rglob("*.md")
            for line in file.read_text().splitlines()
            if self.user_id in line
        )
        return found

    def populate(self) -> None:
        """Give the first user something of everything."""
        hooks = [make_webhook(self.daemon, self.tokens[OWNER, "write"], f"{WORD} {number}") for number in range(3)]
        for number in range(3):
            assert hooks[0].post(json.dumps({"text": WORD, "number": number}).encode()).status == 202
        kept = {"tags": [TAG], "source_uri": SOURCE, "subject": SUBJECT}
        items = [
            self.made("memory_write", agent="reviewer", text=f"{WORD} number {number}", project=PROJECT, **kept)
            for number in range(3)
        ]
        archived = self.made("archival_insert", agent="reviewer", content=f"{WORD} in the archive", tags=[TAG])
        self.made("push", text=f"{WORD} in the collection", project_id=PROJECT, **kept)
        for subject in (None, SUBJECT):
            block = {"agent": "reviewer", "label": "human", "subject": subject}
            version = self.made("agent_block_show", **block)["version"]
            self.made("agent_block_edit", **block, value=WORD, version=version)
        self.made("agent_config_edit", agent="reviewer", preferences={"likes": WORD})
        self.made("agent_config_edit", agent="planner", enabled=False)
        self.made("agent_memory_sql", query="CREATE TABLE notes (note TEXT)")
        self.made("agent_memory_sql", query="INSERT INTO notes VALUES (?)", params=[WORD])
        for key in (KEY, EXAMPLE_KEY):
            for subject in (None, SUBJECT):
                self.made("agent_memory_set", key=key, value=WORD, tags=[TAG], subject=subject)
        thread = self.made("agent_conversation_create", agent="reviewer", title=WORD)["conversation_id"]
        self.made("agent_chat", input=f"I am {WORD}.", agent="reviewer", subject=SUBJECT)
        turn = self.made("agent_chat", input=f"I am {WORD}.", agent="reviewer", thread=thread)
        standing = self._approve_always(thread)
        waiting = self._ask(thread, "memory_insert")
        todo, _ = (
            self.made("task_create", title=f"{WORD} to do", description=f"Do {WORD}.", tags=[TAG], subject=subject)
            for subject in (None, SUBJECT)
        )
        told = self.made("agent_conversation_items", conversation_id=thread, agent="reviewer")
        until(self._ended, what="the runs")
        self.ids = {
            "webhook_id": hooks[0].id,
            "memory_id": items[0]["item"]["memory_id"],
            "archived": archived["memory_id"],
            "collected": self.made("search", query_text=WORD)["hits"][0]["memory_id"],
            "todo": todo["task_id"],
            "thread": thread,
            "run": turn["run"],
            "item": told["data"][0]["id"],
            "approval": waiting["id"],
            "standing": standing["id"],
        }

    def _approve_always(self, thread: str) -> Any:
        """Return a standing approval of the first user."""
        waits = self._ask(thread, "memory_append")
        self.made("approval_approve", approval_id=waits["id"], always=True)
        until(lambda: self.made("agent_run_show", run=waits["run_id"])["ended"] is not None, what="the run")
        return self.made("standing_approval_list")["standing"][0]

    def _ask(self, thread: str, tool: str) -> Any:
        """Return an approval for which a run of the first user waits."""
        call = {"name": tool, "args": {"label": "human", "content": WORD}}
        replies = self.model.replies
        self.model.replies = [json.dumps({"messages": [], "tool_calls": [call]}), *replies]
        self.made("agent_chat", input=f"Note {WORD}.", agent="reviewer", thread=thread)
        return self.made("approval_list")["approvals"][0]

    def made(self, tool: str, **given: Any) -> Any:
        """Return the result of a tool for the first user."""
        answer = ask(self.daemon, self.tokens[OWNER, "write"], "POST", f"/v1/tools/{tool}", given)
        assert answer.status == 200, (tool, answer)
        return answer.json()

    def _ended(self) -> bool:
        listed = operate(self.daemon, "delivery_list", {"limit": 100}).json()["deliveries"]
        return all(row["state"] == "done" for row in listed)


def make_world(daemon: Daemon, model: ScriptedModel) -> World:
    """Return a populated world."""
    for name in USERS:
        assert operate(daemon, "user_add", {"name": name}).status == 200
    tokens = {}
    for user in USERS:
        for scope in SCOPES:
            made = operate(daemon, "token_create", {"label": scope, "scopes": [scope]}, user=user)
            tokens[user, scope] = str(made.json()["token"])
    world = World(daemon, model, tokens)
    world.populate()
    return world


def _in_query(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def unknown(value: Any) -> Any:
    """Return a value of the same form that nobody has, as similar as possible: hints name the nearest."""
    if isinstance(value, list):
        return [unknown(each) for each in value]
    text = str(value)
    return text[:-1] + ("y" if text[-1] not in "0123456789abcdef" else "0" if text[-1] != "0" else "1")

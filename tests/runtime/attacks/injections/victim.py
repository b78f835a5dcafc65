"""The daemon that is attacked: its agents, its secrets, and another user with data of their own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.runtime.attacks.wire import github_headers, operate, tables
from tests.runtime.daemon.running import SECRET, Daemon
from tests.runtime.daemon.v1 import ask, make_token, make_webhook

WORD: Final = "quillonberyl"
"""In every text of the other user, and in no payload."""
USER: Final = "adelheid"
MODEL_KEY: Final = "sk-live-4f1c9e7ab2d84c0e9b7a"
LISTED: Final = frozenset(
    {
        *("memory_replace", "memory_append", "memory_insert", "archival_insert", "archival_search"),
        *("archival_replace", "conversation_search", "memory_search", "memory_list", "webhook_list"),
    }
)
"""The tools of the agents."""
SERVED: Final = frozenset({"evil_note", "evil_env"})
"""Tools of the MCP server that do something, as the model calls them."""
SERVER_TOKEN: Final = "tok-5d0f3a8c61e94b7d"
PROGRAM: Final = """\
model scripted {{ window 100000 service openai {{ url "{url}" model "m" api_key "secret://env/MODEL_KEY" }} }}
memory notes {{ store collection embedding hashing }}
webhook inbox {{ path "/hooks/github" provider github secret "secret://env/GITHUB_SECRET" agent clerk }}
webhook customers {{ path "/hooks/customers" provider github secret "secret://env/GITHUB_SECRET" agent keeper }}
agent clerk {{ memory notes model scripted thread delivery max_steps 12 tools [{tools}] }}
mcp evil {{ command ["{python}", "-I", "-S", "{server}", "{file}"] env {{ TOKEN "secret://env/SERVER_TOKEN" }} }}
agent caller {{ memory notes model scripted thread delivery max_steps 12 tools [{tools} "evil.*"] }}
webhook careful {{ path "/hooks/careful" provider github secret "secret://env/GITHUB_SECRET" agent careful }}
agent careful {{
    memory notes
    model scripted
    thread delivery
    max_steps 12
    tools [{tools}]
    confirm [archival_insert]
}}
agent teller {{ memory notes model scripted main true max_steps 12 tools [{tools}] }}
agent keeper {{
    memory notes
    model scripted
    thread keyed {{ json_path "$.customer" }}
    tool_calling native
    max_steps 12
    tools [{tools}]
}}
"""


@dataclass
class Victim:
    """`known`: what the other user has, as an attacker may know it. `secrets`: what must be said nowhere. `alone`: the
    names of users with a payload each."""

    daemon: Daemon
    token: str
    alone: Sequence[str] = ()
    known: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)

    def deliver(self, webhook: str, name: str, **more: str) -> None:
        """Send a delivery to an agent."""
        path = f"/hooks/{'github' if webhook == 'inbox' else webhook}"
        body = json.dumps({"run": f"RUN-{name}", **more}, ensure_ascii=False).encode()
        assert self.daemon.request("POST", path, body, github_headers(body, name)).status == 202

    def say(self, agent: str, message: str) -> None:
        """Send a message to an agent in a new conversation, and wait for the end of its run."""
        thread = operate(self.daemon, "chat_open", {"agent": agent, "new": True}).json()["thread"]
        sent = operate(self.daemon, "chat_send", {"agent": agent, "thread": thread, "message": message})
        assert sent.status == 200, sent

    def operate(self, operation: str, user: str | None = None, /, **given: Any) -> None:
        """Call a tool or an operation over the admin socket."""
        answer = operate(self.daemon, operation, given, user=user)
        assert answer.status == 200, (operation, answer)

    def tool(self, name: str, /, **given: Any) -> Any:
        """Return the result of a tool that the user calls."""
        answer = ask(self.daemon, self.token, "POST", f"/v1/tools/{name}", given)
        assert answer.status == 200, (name, answer)
        return answer.json()

    def runs(self) -> dict[str, dict[str, Any]]:
        """Return the runs of all agents by id, with the `user` of each who has one payload alone."""
        found: dict[str, dict[str, Any]] = {}
        for user in (None, *self.alone):
            rows = operate(self.daemon, "agent_runs", {"limit": 1000}, user=user).json()["runs"]
            found |= {row["run"]: {**row, "user": user} for row in rows}
        return found

    def messages(self, run: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the messages of the thread of a run, oldest first."""
        found: list[dict[str, Any]] = []
        asked = {"conversation_id": run["thread"], "order": "asc", "limit": 100}
        while True:
            last = found[-1]["id"] if found else None
            answer = operate(self.daemon, "agent_conversation_items", {**asked, "after": last}, user=run["user"])
            assert answer.status == 200, answer
            found += answer.json()["data"]
            if not answer.json()["has_more"]:
                return found

    def events(self) -> list[dict[str, Any]]:
        """Return what the log of runs tells the user."""
        found: list[dict[str, Any]] = []
        after = 0
        while True:
            page = self.tool("agent_events", after=after, limit=200)
            if not page["events"]:
                return found
            found += page["events"]
            after = page["next"]

    def foreign(self) -> Mapping[str, Any]:
        """Return everything that no agent may change: what the other user has, and who may do what."""
        everything = tables(self.daemon)
        common = {
            f"all {name}": everything[name] for name in ("agent_settings", "secrets", "tokens", "users", "webhooks")
        }
        return tables(self.daemon, self.known["ID"]) | common


def make_victim(daemon: Daemon) -> Victim:
    """Return the daemon with another user who has something of everything."""
    assert operate(daemon, "user_add", {"name": USER}).status == 200
    theirs = make_token(daemon, "--user", USER, "--scope", "write")
    victim = Victim(daemon, make_token(daemon, "--scope", "write"))

    def made(tool: str, **given: Any) -> Any:
        answer = ask(daemon, theirs, "POST", f"/v1/tools/{tool}", given)
        assert answer.status == 200, (tool, answer)
        return answer.json()

    hook = make_webhook(daemon, theirs, f"{WORD} hook", agent="clerk")
    assert hook.post(json.dumps({"text": f"RUN-theirs {WORD}"}).encode()).status == 202
    item = made("archival_insert", agent="clerk", content=f"zaphodquartz is {WORD}", tags=["zaphodquartz"])
    for agent, subject in (("clerk", None), ("keeper", "zaphod")):
        made("archival_insert", agent=agent, content=f"zaphodquartz and {WORD}", subject=subject)
        block = {"agent": agent, "label": "human", "subject": subject}
        version = made("agent_block_show", **block)["version"]
        made("agent_block_edit", **block, value=f"zaphodquartz {WORD}", version=version)
    sent = operate(daemon, "chat_send", {"agent": "clerk", "message": f"RUN-theirs zaphodquartz {WORD}"}, user=USER)
    ids = {row["user"]: row["id"] for row in operate(daemon, "user_list", {}).json()["users"]}
    victim.known = {
        "USER": USER,
        "ID": str(ids[USER]),
        "THREAD": sent.json()["thread"],
        "RUN": sent.json()["run"],
        "ITEM": item["memory_id"],
        "HOOK": hook.id,
    }
    victim.secrets = {
        "another user's data": WORD,
        "the key of the model": MODEL_KEY,
        "the secret of the webhooks": SECRET,
        "the secret of another user's webhook": hook.secret or "",
        "the token of the server": SERVER_TOKEN,
        "a token": victim.token,
        "another user's token": theirs,
        "the master key": (daemon.root / ".symbi/master.key").read_text().strip(),
    }
    return victim

"""The payloads, and the ways by which a text of others reaches an agent."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tests.runtime.attacks.injections.victim import Victim


@dataclass(frozen=True)
class Payload:
    """One row of `payloads.toml`."""

    name: str
    where: str
    tries: str
    text: str
    calls: list[str]
    says: tuple[str, ...] = ()

    @property
    def marked(self) -> str:
        """The text between two marks by which it is found in a context."""
        return f"BEGIN-{self.name} {self.text} END-{self.name}"

    def about(self, known: Mapping[str, str]) -> Payload:
        """Return it with what another user has in place of `$NAME`."""
        text = self.text
        for name, value in known.items():
            text = text.replace(f"${name}", value)
        return replace(self, text=text)


def _in_a_delivery(victim: Victim, payload: Payload) -> None:
    victim.deliver("inbox", payload.name, note=payload.marked)


def _before_a_confirmation(victim: Victim, payload: Payload) -> None:
    victim.deliver("careful", payload.name, note=payload.marked)


def _in_a_title(victim: Victim, payload: Payload) -> None:
    victim.deliver("customers", payload.name, customer=payload.marked)


def _in_a_message(victim: Victim, payload: Payload) -> None:
    victim.say("clerk", f"RUN-{payload.name} {payload.marked}")


def _in_the_archive(victim: Victim, payload: Payload) -> None:
    victim.tool("archival_insert", agent="clerk", content=payload.marked)
    victim.say("clerk", _searching("archival_search", payload))


def _in_an_output(victim: Victim, payload: Payload) -> None:
    victim.tool("memory_write", agent="clerk", text=f"A note on {payload.name}.", author=payload.marked)
    victim.say("clerk", _searching("memory_search", payload))


def _in_a_block(victim: Victim, payload: Payload) -> None:
    block = {"agent": "keeper", "label": "human", "subject": payload.name}
    version = victim.tool("agent_block_show", **block)["version"]
    victim.tool("agent_block_edit", **block, value=payload.marked, version=version)
    victim.deliver("customers", payload.name, customer=payload.name)


def _in_a_description(victim: Victim, payload: Payload) -> None:
    victim.say("caller", f"RUN-{payload.name} Hello.")


def _in_an_output_of_a_server(victim: Victim, payload: Payload) -> None:
    victim.say("caller", f"RUN-{payload.name} call evil_note {json.dumps({'text': payload.name})}")


def _in_a_task(victim: Victim, payload: Payload) -> None:
    # Tasks are shared by all runs in a main thread: each of these has a user of its own.
    task = {"title": payload.marked, "priority": "urgent"}
    victim.operate("task_create", payload.name, **task)
    victim.operate("chat_send", payload.name, message=f"RUN-{payload.name} Hello.")


def _searching(tool: str, payload: Payload) -> str:
    return f"RUN-{payload.name} call {tool} {json.dumps({'query': payload.name, 'limit': 3})}"


VECTORS: Final[Mapping[str, Callable[[Victim, Payload], None]]] = {
    "archival": _in_the_archive,
    "block": _in_a_block,
    "confirm": _before_a_confirmation,
    "delivery": _in_a_delivery,
    "mcp": _in_a_description,
    "mcp_output": _in_an_output_of_a_server,
    "message": _in_a_message,
    "task": _in_a_task,
    "title": _in_a_title,
    "tool_output": _in_an_output,
}
"""How a text reaches the agent, and what makes it run then."""
PAYLOADS: Final = tuple(
    Payload(**{**row, "says": tuple(row.get("says", ()))})
    for row in tomllib.loads((Path(__file__).parent / "payloads.toml").read_text(encoding="utf-8"))["payload"]
)

"""A conversation with an agent through the daemon."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import click

from runtime.cli.client import DaemonGone, call_daemon
from runtime.cli.terminal.output import one_line
from runtime.daemon.process.root import Root

Event = Mapping[str, Any]
Show = Callable[[Event], None]

RESTART_SECONDS = 60.0
"""Seconds for which a daemon that stopped during an answer may take to be there again."""
_LOOK_SECONDS = 0.5


def show_notices(event: Event) -> None:
    """Print what a person must know while an answer is waited for."""
    if event["event"] == "waiting":
        click.secho("the thread has another turn; the message waits for its end", fg="yellow", err=True)
    elif event["event"] == "gone":
        click.secho("the daemon stopped; the answer goes on when it runs again", fg="yellow", err=True)
    elif event["event"] == "away":
        why = one_line(event["error"] or "it gave no reason")
        click.secho(f"the model is away; the message waits for it: {why}", fg="yellow", err=True)
    elif event["event"] == "parked":
        click.secho(f"the message waits: {one_line(event['error'] or 'a limit is reached')}", fg="yellow", err=True)


@dataclass
class Conversation:
    """A thread of an agent and a user. `subject`: whose core memory the agent has there; None for its own. `said`: what
    the user said there before, oldest first."""

    root: Root
    agent: str
    user: str | None
    model: str
    thread: str
    subject: str | None
    messages: int
    said: Sequence[str]

    @classmethod
    def open(cls, root: Root, agent: str | None, user: str | None, *, new: bool, thread: str | None = None) -> Self:
        """Open the main thread of the agent, a new conversation, or the thread with this id. Raises SymbiontError."""
        given = {"agent": agent, "user": user, "new": new or None, "thread": thread}
        answer = call_daemon(root, "chat.open", given)
        return cls(
            root=root,
            agent=answer["agent"],
            user=user,
            model=answer["model"],
            thread=answer["thread"],
            subject=answer["subject"],
            messages=answer["messages"],
            said=tuple(answer["said"]),
        )

    def ask(
        self, message: str, *, patience: int = 0, show: Show = show_notices, decides: bool = False
    ) -> dict[str, Any]:
        """Send a message and return its answer, see the operation `chat.follow`. `patience`: seconds for which a model
        may be away, 0: any. `show`: called with what happens. `decides`: it decides about calls that wait for
        approval.

        When the daemon is restarted meanwhile, the same run is followed again. When it is interrupted, the run is
        cancelled.
        """
        sent: dict[str, Any] = {}

        def note(event: Event) -> None:
            if event["event"] == "sent":
                sent.update(event)
            else:
                show(event)

        asked = {
            "agent": self.agent,
            "user": self.user,
            "thread": self.thread,
            "patience": patience,
            "decides": decides,
        }
        try:
            try:
                return call_daemon(self.root, "chat.send", {**asked, "message": message}, on_event=note)
            except DaemonGone:
                if not sent:
                    raise
            note({"event": "gone"})
            return self.follow(sent["run"], patience=patience, show=note, decides=decides)
        except KeyboardInterrupt:
            if sent:
                self.cancel(sent["run"])
            raise

    def cancel(self, run: str) -> None:
        """Cancel a run. Raises SymbiontError."""
        call_daemon(self.root, "agents.cancel", {"run": run, "user": self.user})

    def call(self, name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Call another operation of the daemon for this agent and user."""
        return call_daemon(self.root, name, {"agent": self.agent, "user": self.user, **parameters})

    def follow(
        self, run: str, *, patience: int = 0, show: Show = show_notices, decides: bool = False
    ) -> dict[str, Any]:
        """Follow a run, and return its answer; when the daemon is restarted meanwhile, the same run again."""
        given = {"run": run, "thread": self.thread, "user": self.user, "patience": patience, "decides": decides}
        end = time.monotonic() + RESTART_SECONDS
        while True:
            try:
                return call_daemon(self.root, "chat.follow", given, on_event=show)
            except DaemonGone:
                if time.monotonic() > end:
                    raise
            time.sleep(_LOOK_SECONDS)

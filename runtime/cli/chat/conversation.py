"""A conversation with an agent through the daemon."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from runtime.cli.client import DaemonGone, call_daemon
from runtime.cli.terminal.screen import echo
from runtime.daemon.process.root import Root
from runtime.threads.events.run_event import NOTE

Event = Mapping[str, Any]
Show = Callable[[Event], None]

RESTART_SECONDS = 60.0
"""Seconds for which a daemon that stopped during an answer may take to be there again."""
_LOOK_SECONDS = 0.5


def show_notices(event: Event) -> None:
    """Print what a person must know while an answer is waited for."""
    if event["event"] == NOTE:
        echo(event["detail"], fg="yellow", err=True)


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
        answer = call_daemon(root, "chat_open", {"agent": agent, "new": new, "thread": thread}, user=user)
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
        """Send a message and return its answer, see the operation `chat_follow`. `patience`: seconds for which a model
        may be away, 0: any. `show`: called with what happens. `decides`: it decides about calls that wait for
        approval.

        When the daemon is restarted meanwhile, the same run is followed again. When it is interrupted, the run is
        cancelled.
        """
        sent: dict[str, Any] = {}
        seen = 0

        def note(event: Event) -> None:
            nonlocal seen
            if event["event"] == "sent":
                sent.update(event)
            else:
                seen = event["id"] or seen
                show(event)

        asked = {
            "agent": self.agent,
            "thread": self.thread,
            "patience": patience,
            "decides": decides,
        }
        try:
            try:
                return call_daemon(self.root, "chat_send", {**asked, "message": message}, user=self.user, on_event=note)
            except DaemonGone:
                if not sent:
                    raise
            show({"event": NOTE, "detail": "the daemon stopped; the answer goes on when it runs again"})
            return self.follow(sent["run"], after=seen, patience=patience, show=show, decides=decides)
        except KeyboardInterrupt:
            if sent:
                self.cancel(sent["run"])
            raise

    def cancel(self, run: str) -> None:
        """Cancel a run. Raises SymbiontError."""
        call_daemon(self.root, "agent_run_cancel", {"run": run}, user=self.user)

    def call(self, name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Call another operation of the daemon for this agent and user."""
        return call_daemon(self.root, name, {"agent": self.agent, **parameters}, user=self.user)

    def approval(self, approval_id: str) -> dict[str, Any]:
        """Return a call that waits for approval, or that was decided meanwhile. Raises SymbiontError."""
        return call_daemon(self.root, "approval_show", {"approval_id": approval_id})

    def follow(
        self, run: str, *, after: int = 0, patience: int = 0, show: Show = show_notices, decides: bool = False
    ) -> dict[str, Any]:
        """Follow a run from its beginning, or after the event with an id, and return its answer; when the daemon is
        restarted meanwhile, the same run again."""
        given = {"run": run, "thread": self.thread, "patience": patience, "decides": decides}

        def note(event: Event) -> None:
            nonlocal after
            after = event["id"] or after
            show(event)

        end = time.monotonic() + RESTART_SECONDS
        while True:
            try:
                return call_daemon(self.root, "chat_follow", {**given, "after": after}, user=self.user, on_event=note)
            except DaemonGone:
                if time.monotonic() > end:
                    raise
            time.sleep(_LOOK_SECONDS)

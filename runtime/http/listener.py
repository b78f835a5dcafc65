"""What all connections of one listener share."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from runtime.http.body import Bodies
from runtime.http.crowd import Group, Member
from runtime.http.limits import Limits
from runtime.http.problem import Problem
from runtime.http.request import Request
from runtime.http.response import Response

Handler = Callable[[Request], Coroutine[Any, Any, Response]]
"""Answers a request. It has no task of its own, see `drive`."""

Refuse = Callable[[Problem, str | None], Response]
"""Answers what never became a request, given its problem and the address at the connection's other end."""


class Link(Member, Protocol):
    """A connection, as its listener knows it."""

    def look(self, now: float, /) -> None:
        """See whether a deadline has passed."""

    def drain(self) -> None:
        """The listener stops: close once nothing is under way."""

    def close(self, *, at_once: bool = False) -> None:
        """End; `at_once`: without what has not been sent yet."""


class Listener(Protocol):
    """`runtime.http.server.Server`, as its connections know it. `now`: the event loop's time, at most a second old.
    `draining`: it has been asked to stop."""

    @property
    def handler(self) -> Handler: ...
    @property
    def refuse(self) -> Refuse: ...
    @property
    def limits(self) -> Limits: ...
    @property
    def bodies(self) -> Bodies: ...
    @property
    def now(self) -> float: ...
    @property
    def draining(self) -> bool: ...

    def admit(self, connection: Link, peer: str | None, /) -> Group | None:
        """A new connection; None when there is no room for it."""

    def forget(self, connection: Link, group: Group | None, /) -> None:
        """It is gone. `group`: where it still counts."""

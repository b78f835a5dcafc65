"""Base class of models over HTTP: one call for each reply, the meaning of failures, and reachability."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Set
from contextlib import aclosing
from typing import Any, ClassVar, Final, Protocol, Self

import msgspec

from runtime.clock import SYSTEM, Clock
from runtime.errors import SymbiontError
from runtime.models.model import (
    AccessRefused,
    ModelRefused,
    ModelUnavailable,
    NoSuchModel,
    Problem,
    WindowExceeded,
)
from runtime.models.reachability import Reachability, WatchedModel
from runtime.models.request import Reply, Request
from runtime.models.window_errors import exceeds_window
from runtime.outbound.http import CallFailed, HttpCaller, explanation, may_pass
from runtime.outbound.model_service import Refusal

STREAM_FACTOR: Final = 10
"""A streamed answer may take as many times the timeout of an answer in all, if no part of it takes longer than one."""

_TOOLS: Final = re.compile(r"\btools?\b")
_NOT_ACCEPTED: Final = frozenset({400, 422})
_CLOSED: Final = frozenset({401, 403})


class Reading(Protocol):
    """Reads the parts of one reply."""

    def feed(self, part: Any) -> str:
        """Take a decoded part, which may be the whole answer; return the text that it adds. Raises ValueError for one
        that is no part of a reply."""

    @property
    def complete(self) -> bool:
        """True after the last part."""

    def whole(self) -> Reply:
        """Return the reply of all parts. Raises ValueError if there was none."""


class RemoteModel(WatchedModel):
    """Calls a service once for each question: the caller decides about retries.

    The exception is a service that does not know a parameter: the question is asked again without it, and later ones
    are asked without it from the beginning.
    """

    holds_schema = True
    native_calls = True

    _optional: ClassVar[Mapping[str, re.Pattern[str]]]
    """The parameters without which a question may be asked, and how a refusal of each names it."""
    _schema_parameter: ClassVar[str]
    _window_hint: ClassVar[str | None] = None

    def __init__(
        self, model: str, host: str, seconds: float, *, caller: HttpCaller | None = None, clock: Clock = SYSTEM
    ) -> None:
        """`host`: the service as shown. `seconds`: at most for an answer, or for each part of a streamed one."""
        self.model = model
        self._host = host
        self._seconds = seconds
        self._caller = caller or HttpCaller(clock=clock)
        self._clock = clock
        self._reachability = Reachability(clock)
        self._unknown: dict[str, set[str]] = {}
        """For each model, the parameters that the service refused."""

    async def reply(self, request: Request) -> Reply:
        while True:
            sent = self._body(request, self._unknown_parameters(), stream=False)
            url, headers = self._address()
            try:
                answer = await self._caller.post_json(
                    url, sent, headers=headers, timeout_seconds=self._seconds, tries=1
                )
                reading = self._reading()
                self._feed(reading, answer)
                reply = self._whole(reading)
            except CallFailed as failure:
                error = self._error(failure, sent)
            else:
                self._reachability.note(None)
                return reply
            if error is not None:
                raise error

    async def stream(self, request: Request) -> AsyncGenerator[str | Reply, None]:
        while True:
            sent = self._body(request, self._unknown_parameters(), stream=True)
            reading = self._reading()
            try:
                async with aclosing(self._parts(sent)) as parts:
                    async for part in parts:
                        if text := self._feed(reading, part):
                            yield text
                if not reading.complete:
                    raise CallFailed(f"{self._host} ended its answer before it was complete", maybe_done=True)
                reply = self._whole(reading)
            except CallFailed as failure:
                error = self._error(failure, sent)
            else:
                self._reachability.note(None)
                yield reply
                return
            if error is not None:
                raise error

    async def reachable(self) -> bool:
        # A refusal is an answer.
        problem = await self.problem()
        return problem is None or problem.refused

    def with_model(self, model: str) -> Self:
        other = super().with_model(model)
        other.holds_schema = self._schema_parameter not in self._unknown.get(model, ())
        return other

    async def close(self) -> None:
        await self._caller.close()

    @abstractmethod
    def _address(self) -> tuple[str, dict[str, str]]:
        """Return the URL that is asked, and the headers."""

    @abstractmethod
    def _body(self, request: Request, unknown: Set[str], *, stream: bool) -> dict[str, Any]:
        """Return the body of a request without the parameters in `unknown`."""

    @abstractmethod
    def _reading(self) -> Reading:
        """Return the reading of a new reply."""

    @abstractmethod
    def _events(self, lines: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        """Yield the JSON of each part, given the lines of a streamed answer. Raises ValueError for other lines."""

    @abstractmethod
    def _refused(self, failure: CallFailed) -> Refusal:
        """Convert a permanent HTTP failure to a report with the fix."""

    def _unknown_parameters(self) -> Set[str]:
        return self._unknown.get(self.model, frozenset())

    async def _parts(self, sent: dict[str, Any]) -> AsyncGenerator[Any, None]:
        """Yield the decoded parts of a streamed answer. Raises CallFailed, ModelRefused."""
        url, headers = self._address()
        lines = self._caller.post_lines(
            url,
            sent,
            headers=headers,
            part_seconds=self._seconds,
            timeout_seconds=self._seconds * STREAM_FACTOR,
        )
        try:
            async with aclosing(lines), aclosing(self._events(lines)) as events:
                async for event in events:
                    yield msgspec.json.decode(event)
                return
        except (ValueError, RecursionError):
            wrong = self._not_text()
        raise wrong

    def _feed(self, reading: Reading, part: Any) -> str:
        """Raises CallFailed for an error in place of a part, ModelRefused for anything else."""
        if isinstance(part, dict) and part.get("error"):
            raise self._told(part)
        try:
            return reading.feed(part)
        except ValueError:
            wrong = self._not_text()
        raise wrong

    def _whole(self, reading: Reading) -> Reply:
        """Raises ModelRefused if the answer has no reply."""
        try:
            return reading.whole()
        except ValueError:
            wrong = self._not_text()
        raise wrong

    def _told(self, part: dict[str, Any]) -> CallFailed:
        """Return the failure for an error that arrived with a status of success, as it does during a stream."""
        detail = explanation(part, self._address()[1])
        code = part["error"].get("code") if isinstance(part["error"], dict) else None
        status = code if isinstance(code, int) and 400 <= code < 600 else None
        message = f"{self._host} ended its answer with an error" + (f": {detail}" if detail else "")
        passing = status is None or may_pass(status)
        return CallFailed(message, status=status, passing=passing, detail=detail, maybe_done=True)

    def _error(self, failure: CallFailed, sent: Mapping[str, Any]) -> SymbiontError | None:
        """Return the error for a failed call; None if it is to be repeated without a parameter, which is noted."""
        if failure.status != 429 and exceeds_window(failure.detail):
            message = f"the request is larger than the window of {self.model} at {self._host}: {failure.detail}"
            return WindowExceeded(message, hint=self._window_hint)
        if failure.status in _NOT_ACCEPTED and (refused := self._named(failure.detail, sent)):
            self._unknown.setdefault(self.model, set()).add(refused)
            self.holds_schema = self._schema_parameter not in self._unknown[self.model]
            return None
        if not failure.passing:
            message, hint, no_model = self._refused(failure)
            if "tools" in sent and _TOOLS.search(failure.detail):
                hint = "write `tool_calling json` in the agent's block"
            closed = AccessRefused if failure.status in _CLOSED else ModelRefused
            refusal = (NoSuchModel if no_model else closed)(message, hint=hint)
            refusal.maybe_done = failure.maybe_done
            return refusal
        error = self._unavailable(failure)
        if failure.status is None:
            self._reachability.note(Problem.of(error))
        return error

    def _unavailable(self, failure: CallFailed) -> ModelUnavailable:
        message = f"the model {self.name} is unavailable: {failure}"
        error = ModelUnavailable(message, hint=failure.hint, retry_after=failure.retry_after)
        error.maybe_done = failure.maybe_done
        return error

    def _named(self, detail: str, sent: Mapping[str, Any]) -> str | None:
        """Return the optional parameter that a refusal names and that was sent."""
        named = (name for name, wording in self._optional.items() if name in sent and wording.search(detail))
        return next(named, None)

    def _not_text(self) -> ModelRefused:
        """Return the error for an answer that is not text."""
        refusal = ModelRefused(
            f"the model {self.name} got an answer from {self._host} that is not text", hint="check the URL"
        )
        refusal.maybe_done = True
        return refusal

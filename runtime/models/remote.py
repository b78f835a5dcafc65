"""Base class of models over HTTP: one call for each reply, the meaning of failures, and reachability."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import AsyncGenerator, Mapping, Set
from contextlib import aclosing
from typing import Any, ClassVar, Final, Protocol, Self

from runtime.clock import SYSTEM, Clock
from runtime.errors import SymbiontError
from runtime.models.answers.answer_parts import END, answer_parts
from runtime.models.answers.partial_reply import NotAnswered
from runtime.models.answers.refusals import (
    NOT_ACCEPTED,
    error_in,
    is_moderated,
    kind_of,
    malformed_reply,
    refuses_content,
    refuses_key,
    status_in,
)
from runtime.models.model import (
    ModelRefused,
    ModelUnavailable,
    Problem,
    RequestRefused,
    WindowExceeded,
)
from runtime.models.reachability import REACHABLE_SECONDS, Reachability, WatchedModel
from runtime.models.request import Reply, Request
from runtime.models.window_errors import exceeds_window
from runtime.outbound.http import CallFailed, HttpCaller, explanation, may_pass
from runtime.outbound.model_service import Refusal

STREAM_FACTOR: Final = 10
"""A streamed answer may take as many times the timeout of an answer in all, if no part of it takes longer than one."""

WINDOW_SECONDS: Final = 600.0
"""Seconds for which the window that a service says is cached."""

_TOOLS: Final = re.compile(r"\btools?\b")


class ReplyReader(Protocol):
    """Reads the parts of one reply."""

    def feed(self, part: Any) -> str:
        """Take a decoded part, which may be the whole answer; return the text that it adds. Raises ValueError for one
        that is no part of a reply, NotAnswered for one that says that there will be none."""

    def end(self) -> None:
        """Take the mark of the end of the parts."""

    @property
    def complete(self) -> bool:
        """True after the last part."""

    def reply(self) -> Reply:
        """Return the reply of all parts. Raises ValueError if there was none."""


class RemoteModel(WatchedModel):
    """Calls a service once for each question: the caller decides about retries.

    The exception is a service that does not know a parameter: the question is asked again without it, and later ones
    are asked without it from the beginning.
    """

    holds_schema = True
    native_calls = True

    _optional: ClassVar[Mapping[str, re.Pattern[str]]]
    """The parameters without which a question may be asked, and how a refusal of each names it. What a service does not
    accept is not asked for again."""
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
        self._windows: dict[str, tuple[float, int | None]] = {}
        """For each model, the window that the service said last, and until when that is taken as it is."""

    async def reply(self, request: Request) -> Reply:
        async with aclosing(self._reply_parts(request, stream=False)) as parts:
            async for part in parts:
                if isinstance(part, Reply):
                    return part
        raise AssertionError("it ends with the reply")

    def stream(self, request: Request) -> AsyncGenerator[str | Reply, None]:
        return self._reply_parts(request, stream=True)

    async def _reply_parts(self, request: Request, *, stream: bool) -> AsyncGenerator[str | Reply, None]:
        """Yield the parts of the text and the reply, whichever way the service answers."""
        reply: Reply | None
        error: SymbiontError | None
        while True:
            begun = False
            sent = self._body(request, self._unknown_parameters(), stream=stream)
            reader = self._new_reader()
            try:
                async with aclosing(self._parts(sent)) as parts:
                    async for part in parts:
                        if text := self._feed(reader, part):
                            begun = True
                            yield text
                if not reader.complete and sent.get("stream"):
                    raise CallFailed(f"{self._host} ended its answer before it was complete", maybe_done=True)
                error, reply = None, self._reply_of(reader)
            except CallFailed as failure:
                reply = malformed_reply(failure.answer, failure.detail)
                error = self._error(failure, sent, again=not begun) if reply is None else None
            if error is not None:
                raise error
            if reply is not None:
                self._reachability.note(None)
                yield reply
                return

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

    async def _service_window(self) -> int | None:
        """Return the window that the service says; None if it does not. Raises nothing."""
        until, window = self._windows.get(self.model, (float("-inf"), None))
        if until <= self._clock.monotonic():
            try:
                window, seconds = await self._ask_window(), WINDOW_SECONDS
            except CallFailed:
                # The last known one, until the service answers again.
                seconds = REACHABLE_SECONDS
            self._windows[self.model] = self._clock.monotonic() + seconds, window
        return window

    async def _ask_window(self) -> int | None:
        """Return the window that the service says now; None if it does not. Raises CallFailed."""
        return None

    @abstractmethod
    def _address(self) -> tuple[str, dict[str, str]]:
        """Return the URL that is asked, and the headers."""

    @abstractmethod
    def _body(self, request: Request, unknown: Set[str], *, stream: bool) -> dict[str, Any]:
        """Return the body of a request without the parameters in `unknown`."""

    @abstractmethod
    def _new_reader(self) -> ReplyReader:
        """Return the reader of a new reply."""

    @abstractmethod
    def _service_refusal(self, failure: CallFailed) -> Refusal:
        """Convert a permanent HTTP failure to a report with the fix."""

    def _unknown_parameters(self) -> Set[str]:
        return self._unknown.get(self.model, frozenset())

    async def _parts(self, sent: dict[str, Any]) -> AsyncGenerator[Any, None]:
        """Yield the decoded parts of an answer. Raises CallFailed, ModelRefused."""
        try:
            async with aclosing(self._lines(sent)) as lines, aclosing(answer_parts(lines)) as parts:
                async for part in parts:
                    yield part
                return
        except (ValueError, RecursionError):
            wrong = self._not_text()
        raise wrong

    def _lines(self, sent: dict[str, Any]) -> AsyncGenerator[bytes, None]:
        """Yield the lines of an answer. Raises CallFailed, ModelRefused."""
        url, headers = self._address()
        seconds = self._seconds * STREAM_FACTOR if sent.get("stream") else self._seconds
        return self._caller.post_lines(url, sent, headers=headers, part_seconds=self._seconds, timeout_seconds=seconds)

    def _feed(self, reader: ReplyReader, part: Any) -> str:
        """Raises CallFailed for an error in place of a part, ModelRefused for anything else."""
        if part is END:
            reader.end()
            return ""
        if (error := error_in(part)) is not None:
            raise self._answer_failure(part, error)
        try:
            return reader.feed(part)
        except NotAnswered:
            wrong: SymbiontError = self._answer_failure({}, None)
        except ValueError:
            wrong = self._not_text()
        raise wrong

    def _reply_of(self, reader: ReplyReader) -> Reply:
        """Raises ModelRefused if the answer has no reply."""
        try:
            return reader.reply()
        except ValueError:
            wrong = self._not_text()
        raise wrong

    def _answer_failure(self, part: dict[str, Any], error: Any) -> CallFailed:
        """Return the failure for an error that arrived with a status of success, as it does during a stream."""
        detail = explanation(part, self._address()[1])
        status = status_in(error)
        message = f"{self._host} ended its answer with an error" + (f": {detail}" if detail else "")
        refused = refuses_content(None, detail) or refuses_key(detail)
        passing = not refused if status is None else may_pass(status)
        return CallFailed(message, status=status, passing=passing, detail=detail, maybe_done=True, answer=part)

    def _error(self, failure: CallFailed, sent: Mapping[str, Any], *, again: bool) -> SymbiontError | None:
        """Return the error for a failed call; None if it is to be repeated without a parameter, which is noted.
        `again`: it may be."""
        if exceeds_window(failure.detail, failure.status):
            message = f"the request is larger than the window of {self.model} at {self._host}"
            message = f"{message}: {failure.detail}" if failure.detail else message
            return WindowExceeded(message, hint=self._window_hint)
        if again and failure.status in NOT_ACCEPTED and (refused := self._refused_parameter(failure, sent)):
            self._unknown.setdefault(self.model, set()).add(refused)
            self.holds_schema = self._schema_parameter not in self._unknown[self.model]
            return None
        if not failure.passing or refuses_content(failure.status, failure.detail):
            return self._refusal(failure, sent)
        error = self._unavailable(failure)
        if failure.status is None:
            self._reachability.note(Problem.of(error))
        return error

    def _refusal(self, failure: CallFailed, sent: Mapping[str, Any]) -> ModelRefused:
        message, hint, no_model = self._service_refusal(failure)
        reason = explanation(failure.answer, self._address()[1])
        kind = kind_of(failure.status, failure.detail, reason, no_model=no_model)
        if "tools" in sent and _TOOLS.search(failure.detail):
            kind, hint = ModelRefused, "write `tool_calling json` in the agent's block"
        elif issubclass(kind, RequestRefused) and is_moderated(reason):
            message, hint = f"{self._host} refuses what the request says: {reason}", None
        refusal = kind(message, hint=hint)
        refusal.maybe_done = failure.maybe_done
        return refusal

    def _unavailable(self, failure: CallFailed) -> ModelUnavailable:
        message = f"the model {self.name} is unavailable: {failure}"
        error = ModelUnavailable(message, hint=failure.hint, retry_after=failure.retry_after)
        error.maybe_done = failure.maybe_done
        return error

    def _refused_parameter(self, failure: CallFailed, sent: Mapping[str, Any]) -> str | None:
        """Return the optional parameter that a refusal names and that was sent."""
        given = self._optional_parameters(sent)
        named = (name for name, wording in self._optional.items() if name in given and wording.search(failure.detail))
        # An error of the service itself is one of the parameter only where the service cannot use a schema.
        return next((name for name in named if failure.status != 500 or name == self._schema_parameter), None)

    def _optional_parameters(self, sent: Mapping[str, Any]) -> Set[str]:
        """Return the names of the parameters that a request has, and of what `_optional` knows besides them."""
        return sent.keys()

    def _not_text(self) -> ModelRefused:
        """Return the error for an answer that is not text."""
        refusal = ModelRefused(
            f"the model {self.name} got an answer from {self._host} that is not text", hint="check the URL"
        )
        refusal.maybe_done = True
        return refusal

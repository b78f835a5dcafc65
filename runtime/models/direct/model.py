"""A model of a provider, by the direct layer of pydantic-ai."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Self

from pydantic_ai import direct
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelResponse, PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta
from pydantic_ai.models import Model as Inner
from pydantic_ai.models import StreamedResponse
from pydantic_ai.settings import ModelSettings

from runtime.clock import SYSTEM, Clock
from runtime.errors import SymbiontError
from runtime.models.answers.partial_reply import NotAnswered
from runtime.models.direct.failures import Service, error_of, malformed_in, not_text, refusal_in, unavailable
from runtime.models.direct.messages import messages_of, parameters_of, reason_of, reply_of, settings_of
from runtime.models.model import ModelRefused, ModelUnavailable, Problem
from runtime.models.reachability import LOOK_SECONDS, Reachability, WatchedModel
from runtime.models.remote import STREAM_FACTOR
from runtime.models.request import Reply, Request
from runtime.outbound.bounded_client import OPEN_STREAMS
from runtime.outbound.http import CallFailed, HttpCaller


class DirectModel(WatchedModel):
    """Asks one provider through its own library, once for each question."""

    native_calls = True

    def __init__(
        self,
        row: str,
        model: str,
        *,
        make: Callable[[str], Inner[Any]],
        url: str,
        host: str,
        seconds: float,
        secrets: Mapping[str, str],
        settings: ModelSettings,
        streams: bool,
        close: Callable[[], Awaitable[None]],
        clock: Clock = SYSTEM,
    ) -> None:
        """`make`: returns the provider's model by its name. `url`, `host`: of the API, the second as shown. `secrets`:
        what no message may contain. `settings`: of every call. `streams`: False makes a stream of one part. `seconds`:
        at most for an answer, or for each part of a streamed one."""
        self.name = row
        self.model = model
        self._make = make
        self._inner = make(model)
        self._url = url
        self._host = host
        self._seconds = seconds
        self._secrets = _Secrets(secrets)
        self._settings = settings
        self._streams = streams
        self._close = close
        self._caller = HttpCaller(clock=clock)
        self._reachability = Reachability(clock)
        self.holds_schema = self._inner.profile.get("supports_json_schema_output", False)

    async def reply(self, request: Request) -> Reply:
        settings = self._settings | settings_of(request) | ModelSettings(request_timeout=self._seconds)
        try:
            response = await direct.model_request(
                self._inner,
                messages_of(request, self._identity),
                model_settings=settings,
                model_request_parameters=parameters_of(request, holds_schema=self.holds_schema),
                instrument=False,
            )
            outcome = self._outcome(response, streamed=False)
        except Exception as error:
            outcome = self._failure_outcome(error)
        # Raised here, so that the library's error, which may contain the URL, is not its context.
        if isinstance(outcome, SymbiontError):
            raise outcome
        return outcome

    async def stream(self, request: Request) -> AsyncGenerator[str | Reply, None]:
        if not self._streams:
            async for part in super().stream(request):
                yield part
            return
        limits = ModelSettings(request_timeout=self._seconds * STREAM_FACTOR, first_event_timeout=self._seconds)
        try:
            async with AsyncExitStack() as stack:
                answer = await self._open_stream(stack, request, self._settings | settings_of(request) | limits)
                async for event in answer:
                    if text := _text(event):
                        yield text
                outcome = self._outcome(answer.get(), streamed=True)
        except Exception as error:
            outcome = self._failure_outcome(error)
        if isinstance(outcome, SymbiontError):
            raise outcome
        yield outcome

    def _outcome(self, response: ModelResponse, *, streamed: bool) -> Reply | SymbiontError:
        """Return the reply of an answer, or the error for one that has none."""
        service, reason = self._service(), reason_of(response)
        if reason is None and streamed:
            return unavailable(service, f"{self._host} ended its answer before it was complete", maybe_done=True)
        if reason is None and not response.parts:
            return not_text(service)
        self._reachability.note(None)
        try:
            return refusal_in(response, service) or reply_of(response, self._identity)
        except NotAnswered:
            return unavailable(service, f"{self._host} ended its answer with an error: {reason}", maybe_done=True)

    def _failure_outcome(self, error: Exception) -> Reply | SymbiontError:
        """Return the reply that a failed question has all the same, else the error for it."""
        service = self._service()
        if (reply := malformed_in(error, service)) is not None:
            self._reachability.note(None)
            return reply
        if isinstance(error, UserError):
            return ModelRefused(f"{self._host} cannot be asked this by the model {self.name}", hint="try another model")
        failure = error_of(error, service)
        if isinstance(failure, ModelUnavailable) and getattr(error, "status_code", None) is None:
            self._reachability.note(Problem.of(failure))
        return failure

    async def _open_stream(self, stack: AsyncExitStack, request: Request, settings: ModelSettings) -> StreamedResponse:
        """Return a streamed answer, which `stack` closes."""
        opened: list[Any] = []

        async def close() -> None:
            for each in opened:
                await each.aclose()

        stack.push_async_callback(close)
        token = OPEN_STREAMS.set(opened)
        try:
            return await stack.enter_async_context(
                direct.model_request_stream(
                    self._inner,
                    messages_of(request, self._identity),
                    model_settings=settings,
                    model_request_parameters=parameters_of(request, holds_schema=self.holds_schema),
                    instrument=False,
                )
            )
        finally:
            OPEN_STREAMS.reset(token)

    def with_model(self, model: str) -> Self:
        other = super().with_model(model)
        other._inner = self._make(model)
        other.holds_schema = other._inner.profile.get("supports_json_schema_output", False)
        return other

    async def close(self) -> None:
        await self._caller.close()
        await self._close()

    async def _look(self) -> Problem | None:
        try:
            await self._caller.get_json(self._url, timeout_seconds=LOOK_SECONDS)
        except CallFailed as failure:
            # Any answer, also that there is no such page, shows that the service is there.
            if failure.status is None or failure.status >= 500:
                return Problem.of(failure)
        return None

    @property
    def _identity(self) -> str:
        """The provider and the model."""
        return f"{self._host} {self.model}"

    def _service(self) -> Service:
        return Service(self.name, self.model, self._host, self._seconds, self._secrets.reveal())


def _text(event: object) -> str:
    """Return the text that an event of a stream adds."""
    match event:
        case PartStartEvent(part=TextPart(content=text)):
            return text
        case PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
            return text
    return ""


class _Secrets:
    """Texts that no message may contain, and no repr shows."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self.reveal: Callable[[], Mapping[str, str]] = lambda: secrets

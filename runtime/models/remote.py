"""Base class of models over HTTP: reachability, and the meaning of failures."""

from __future__ import annotations

import asyncio
import re
from abc import abstractmethod
from typing import Any

from runtime.clock import SYSTEM, Clock
from runtime.models.model import Model, ModelRefused, ModelUnavailable, NoSuchModel
from runtime.outbound.http import CallFailed, HttpCaller
from runtime.outbound.model_service import Refusal

REACHABLE_SECONDS = 10.0
"""Seconds for which the result of `reachable` is cached."""
LOOK_SECONDS = 2.0
"""Maximum seconds for checking a service."""

# Some services return the thinking of a model between these tags, before the answer.
_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)


class RemoteModel(Model):
    """Calls a service once for each question: the caller decides about retries."""

    def __init__(self, model: str, host: str, *, caller: HttpCaller | None = None, clock: Clock = SYSTEM) -> None:
        """`host`: the service as shown."""
        self.model = model
        self._host = host
        self._caller = caller or HttpCaller(clock=clock)
        self._clock = clock
        self._looking = asyncio.Lock()
        self._seen: tuple[float, bool] | None = None

    async def generate(self, prompt: str, *, system: str = "", max_tokens: int) -> str:
        try:
            answer = await self._ask(prompt, system, max_tokens)
        except CallFailed as failure:
            if not failure.passing:
                message, hint, no_model = self._refused(failure)
                raise (NoSuchModel if no_model else ModelRefused)(message, hint=hint) from None
            if failure.status is None:
                self._note(there=False)
            unavailable = ModelUnavailable(f"the model {self.name} is unavailable: {failure}", hint=failure.hint)
        else:
            self._note(there=True)
            return _THOUGHT.sub("", answer).strip()
        raise unavailable

    async def reachable(self) -> bool:
        async with self._looking:
            if self._seen is None or self._clock.monotonic() - self._seen[0] >= REACHABLE_SECONDS:
                self._note(there=await self._look())
            assert self._seen is not None
            return self._seen[1]

    async def close(self) -> None:
        await self._caller.close()

    @abstractmethod
    async def _ask(self, prompt: str, system: str, max_tokens: int) -> str:
        """Return the service's answer. Raises CallFailed, ModelRefused."""

    @abstractmethod
    async def _look(self) -> bool:
        """True if the service answers within `LOOK_SECONDS`."""

    @abstractmethod
    def _refused(self, failure: CallFailed) -> Refusal:
        """Convert a permanent HTTP failure to a report with the fix."""

    def _note(self, *, there: bool) -> None:
        self._seen = self._clock.monotonic(), there

    async def _post(self, url: str, body: Any, *, headers: dict[str, str] | None = None, seconds: float) -> Any:
        return await self._caller.post_json(url, body, headers=headers, timeout_seconds=seconds, tries=1)

    def _not_text(self) -> ModelRefused:
        """Return the error for an answer that is not text."""
        return ModelRefused(
            f"the model {self.name} got an answer from {self._host} that is not text", hint="check the URL"
        )

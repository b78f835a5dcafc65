"""What writes text when it is asked in words."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Self

from runtime.errors import Retry, UsageError


class ModelUnavailable(Retry):
    """Nothing is written at the moment; the same question can be asked again. The message names model and host."""


class ModelRefused(UsageError):  # noqa: N818 - errors are named for what happened
    """The service will never answer this as it is asked: a wrong key, URL or model. A person must mend it."""


class NoSuchModel(ModelRefused):
    """The service does not have the model that is named."""


class Model(ABC):
    """An opened language model. One event loop uses it."""

    name: str
    """The row's name, as a program writes it: `ollama`, `openai` …"""
    model: str
    """Which model, by the service's own name for it."""

    @abstractmethod
    async def generate(self, prompt: str, *, system: str = "", max_tokens: int) -> str:
        """What the model answers to `prompt`, without what it thought before it and without space at the ends; it may
        be empty. `system`: what it is told before everything else. `max_tokens`: the most that it may write.

        Raises ModelUnavailable, ModelRefused.
        """

    @abstractmethod
    async def reachable(self) -> bool:
        """Whether the service answers at all. Cheap: what was found is believed for some seconds. Raises nothing."""

    def with_model(self, model: str) -> Self:
        """The same service asked for another of its models; what is open is shared, and this one closes it."""
        other = copy.copy(self)
        other.model = model
        return other

    async def close(self) -> None:  # noqa: B027 - what holds nothing open closes by doing nothing
        """Let go of what is open."""

"""The interface of language models."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Self

from runtime.errors import Retry, UsageError


class ModelUnavailable(Retry):
    """The model does not answer at the moment; a later try may succeed. The message names model and host."""


class ModelRefused(UsageError):  # noqa: N818 - errors are named for what happened
    """The service will never answer this request: a wrong key, URL or model. A person must fix it."""


class NoSuchModel(ModelRefused):
    """The service does not have this model."""


class Model(ABC):
    """An opened language model. One event loop uses it."""

    name: str
    """The row's name in a program: `ollama`, `openai` …"""
    model: str
    """The model, by the service's own name."""

    @abstractmethod
    async def generate(self, prompt: str, *, system: str = "", max_tokens: int) -> str:
        """Return the answer to `prompt`, without its thinking and without surrounding white space; it may be empty.
        `system`: instructions before the prompt. `max_tokens`: of the answer.

        Raises ModelUnavailable, ModelRefused.
        """

    @abstractmethod
    async def reachable(self) -> bool:
        """True if the service answers at all. Cheap: the result is cached for some seconds. Raises nothing."""

    def with_model(self, model: str) -> Self:
        """Return the same service with another of its models; resources are shared, and this one closes them."""
        other = copy.copy(self)
        other.model = model
        return other

    async def close(self) -> None:  # noqa: B027 - what holds nothing open closes by doing nothing
        """Release resources."""

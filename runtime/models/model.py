"""The interface of language models."""

from __future__ import annotations

import copy
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from typing import Final, Literal, NamedTuple, Self

from runtime.errors import Away, GiveUp, SymbiontError, UsageError
from runtime.models.request import Reply, Request, prompt_request

# Some services return the reasoning of a model between these tags, before the answer.
_REASONING: Final = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)


DEFAULT_WINDOW: Final = 32_768
"""Tokens of a window that nothing says."""


class Window(NamedTuple):
    """Tokens that a request and its reply may have together. `source`: who says so: the program, the service (or the
    file of a local model), the published data of known models, or nobody."""

    tokens: int
    source: Literal["program", "service", "known", "default"]


class ModelUnavailable(Away):
    """The model does not answer at the moment; a later try may succeed. The message names model and host.

    `retry_after`: seconds that the service asks to wait; None if it does not say.
    """

    state = "model_unavailable"


class ModelRefused(UsageError, GiveUp):  # noqa: N818 - errors are named for what happened
    """The service will never answer this request: a wrong key, URL or model. A person must fix it."""


class NoSuchModel(ModelRefused):
    """The service does not have this model."""


class AccessRefused(ModelRefused):
    """The service refuses every request: its key is missing or wrong, or may not use the model."""


class RequestRefused(ModelRefused):
    """The service refuses what this request says, such as by a filter of contents. Another one may be answered."""

    cause = "request_refused"


class WindowExceeded(ModelRefused):
    """The request has more tokens than the model's window. A shorter one may be answered."""


class Problem(NamedTuple):
    """The reason for which a model cannot be asked. `text`: in one line, with what to do. `refused`: a person must fix
    it, so fallbacks are not asked in its place."""

    text: str
    refused: bool = False

    @classmethod
    def of(cls, error: SymbiontError) -> Problem:
        """Return the problem that an error of the model says."""
        return cls(error.line(), isinstance(error, ModelRefused))


class Model(ABC):
    """An opened language model. One event loop uses it. It makes each call once: its caller limits, repeats and
    counts."""

    name: str
    """The row's name in a program: `ollama`, `openai` …"""
    model: str
    """The model, by the service's own name."""
    holds_schema: bool = False
    """True if replies can be held to a JSON Schema."""
    schema_in_prompt: bool = True
    """True if a schema takes tokens of the request; False if replies are held to it by a grammar alone."""
    native_calls: bool = False
    """True if tools can be offered by the model's own interface."""
    unopened_reasoning: bool = False
    """True if a reply had the end of a reasoning without its begin, which is in the prompt of some templates."""

    @abstractmethod
    async def reply(self, request: Request) -> Reply:
        """Return the reply to `request`. Raises ModelUnavailable, ModelRefused."""

    async def stream(self, request: Request) -> AsyncIterator[str | Reply]:
        """Yield parts of the reply's text as they arrive, then the whole reply. Raises as `reply` does, also after
        some parts; what was yielded then is no reply. The default yields one part."""
        reply = await self.reply(request)
        yield reply.text
        yield reply

    async def generate(self, prompt: str, *, system: str = "", max_tokens: int) -> str:
        """Return the answer to a `prompt_request`, without reasoning and surrounding white space; it may be empty.
        Raises ModelUnavailable, ModelRefused."""
        reply = await self.reply(prompt_request(prompt, system=system, max_tokens=max_tokens))
        return without_reasoning(reply.text)

    @abstractmethod
    async def problem(self) -> Problem | None:
        """Return the problem of the model now; None if its service answers. Cheap: the result is cached for some
        seconds. Raises nothing."""

    @property
    @abstractmethod
    def known_problem(self) -> Problem | None:
        """The problem of the model when it was last called or looked at. Asks nothing. None if its service answered, or
        if that is too long ago to matter."""

    async def reachable(self) -> bool:
        """True if the service answers at all. Cheap and raises nothing, as `problem`."""
        return await self.problem() is None

    async def window(self) -> Window | None:
        """Return the window as the service or the options say it; None if they do not. Cached. Raises nothing."""
        return None

    async def count_tokens(self, texts: Sequence[str]) -> list[int] | None:
        """Return the number of tokens of each text by the model's own tokenizer; None if that is not available."""
        return None

    def with_model(self, model: str) -> Self:
        """Return the same service with another of its models; resources are shared, and this one closes them."""
        other = copy.copy(self)
        other.model = model
        return other

    async def close(self) -> None:  # noqa: B027 - what holds nothing open closes by doing nothing
        """Release resources."""


def without_reasoning(text: str) -> str:
    """Return a reply without reasoning in `<think>` tags and without surrounding white space."""
    return _REASONING.sub("", text).strip()

"""The one path to a language model: every reply, for agents and for summaries, comes through a `ModelClient`."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncGenerator, Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final, Self

from msgspec import structs
from pydantic import BaseModel

from dslc.blocks.model import LanguageModel
from dslc.blocks.variant import Variant
from runtime.clock import SYSTEM, Clock
from runtime.errors import SymbiontError
from runtime.models import MODELS, open_model
from runtime.models.budgets.limits import BudgetExceeded
from runtime.models.calls.call import CallOwner, Purpose
from runtime.models.calls.counted_calls import CallContext, CallKind, CountedCalls
from runtime.models.calls.option_key import option_key
from runtime.models.calls.price import BlockPrice, Price, PublishedPrice
from runtime.models.calls.published_window import published_window
from runtime.models.calls.service import ServiceAway, Services
from runtime.models.model import (
    DEFAULT_WINDOW,
    AccessRefused,
    Model,
    ModelRefused,
    ModelUnavailable,
    NoSuchModel,
    Problem,
    Window,
    WindowExceeded,
    without_reasoning,
)
from runtime.models.request import Reply, Request, Usage, prompt_request, request_tokens
from runtime.models.window_errors import stated_window
from runtime.outbound.http import CallFailed

_SECONDS: Final = 120.0
"""Timeout of a reply of a row without the option `timeout`."""
LONGEST_WAIT_SECONDS: Final = 5.0
"""Maximum seconds of a `Retry-After` that a call waits for. After a longer one the fallbacks are asked, and a run waits
without taking a worker from others."""
Count = Callable[[str], int]
# Options that change how a model is called, and not which one.
_POLICY: Final = frozenset({"timeout", "context", "model", "window", "reasoning", "stream", "keep_alive", "extra"})


class CountedModel:
    """One block with its opened model. The model's service may be shared with other blocks."""

    def __init__(self, block: LanguageModel, model: Model, options: Mapping[str, object], context: CallContext) -> None:
        """`options`: with which the model was opened, with every secret a `Secret`."""
        row = MODELS[block.service.name]
        whole = _defaults(row.options) | dict(options)
        timeout = whole.get("timeout")
        self.block = block
        self.model = model
        self.seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else _SECONDS
        self._url = _url(whole.get("url"))
        self._slots = row.concurrency
        self._service = (
            "model",
            row.name,
            option_key({name: value for name, value in whole.items() if name not in _POLICY}),
        )
        self._window: object = block.window or whole.get("window")
        self._stated: dict[str, int] = {}
        """The windows of the service's models, as it said them when it refused a larger request."""
        self._context = context
        self.calls = self._counted_calls(_price(block, self._url))

    def with_model(self, model: str) -> Self:
        """Return the same service with another of its models, whose price is the published one."""
        other = copy.copy(self)
        other.model = self.model.with_model(model)
        other.calls = other._counted_calls(PublishedPrice(self.block.service.name, self._url))
        return other

    def _counted_calls(self, price: Price) -> CountedCalls:
        identity: Hashable = (*self._service, self.model.model)
        return CountedCalls(
            self.block.name,
            self.model.model,
            self._context.services.of(identity, self._slots),
            self._context,
            price=price,
            longest_wait=LONGEST_WAIT_SECONDS,
        )

    async def window(self) -> Window:
        """Return the window: the block's or that of the service's options, else what the service says, else what is
        published of the model, else a default; a smaller one that the service said when it refused a request counts
        before all of them. Raises nothing."""
        window = await self._assumed_window()
        stated = self._stated.get(self.model.model, window.tokens)
        return window if window.tokens <= stated else Window(stated, "service")

    async def _assumed_window(self) -> Window:
        if isinstance(self._window, int):
            return Window(self._window, "program")
        stated = await self.model.window()
        if stated is not None:
            return stated
        known = await published_window(self.model.name, self._url, self.model.model)
        return Window(DEFAULT_WINDOW, "default") if known is None else Window(known, "known")

    @property
    def reads_schema(self) -> bool:
        """True if the schema of a reply takes tokens of the request."""
        return self.model.holds_schema and self.model.schema_in_prompt

    def kind(self, request: Request, owner: CallOwner, purpose: Purpose, count: Count | None) -> CallKind:
        """Return the kind of a call with this request. `count`: see `ModelClient.reply`."""
        counted = request if self.reads_schema else structs.replace(request, schema=None)
        return CallKind(owner, purpose, lambda: _largest_usage(counted, count))

    async def reply(self, request: Request, kind: CallKind) -> Reply:
        """Return the model's reply. Raises ModelUnavailable, ModelRefused."""

        async def attempt() -> tuple[Reply, Usage]:
            reply = await self.model.reply(request)
            return reply, reply.usage

        with self._translate_errors():
            return self._label_reply(await self.calls.call(attempt, kind, seconds=self.seconds))

    async def problem(self) -> Problem | None:
        """Return the problem of the model now, by its last calls or by a look at its service; None if it answers.
        Cheap. Raises nothing."""
        return self._problem_of_calls() or await self.model.problem()

    @property
    def known_problem(self) -> Problem | None:
        """The problem that the last calls or the last look at the service have shown. Asks nothing."""
        return self._problem_of_calls() or self.model.known_problem

    def _problem_of_calls(self) -> Problem | None:
        service = self.calls.service
        # What refused every call refuses them again when it is back, until one is answered.
        if service.failure is not None:
            return Problem(service.failure)
        if service.refused is not None:
            return Problem(f"its last call was refused: {service.refused}", refused=True)
        return None

    async def stream(self, request: Request, kind: CallKind) -> AsyncGenerator[str | Reply, None]:
        """Yield the parts of the model's reply, then the whole. Raises ModelUnavailable, ModelRefused."""
        with self._translate_errors():
            async with aclosing(
                self.calls.stream(lambda: self.model.stream(request), kind, seconds=self.seconds)
            ) as parts:
                async for part in parts:
                    yield self._label_reply(part) if isinstance(part, Reply) else part

    def _label_reply(self, reply: Reply) -> Reply:
        return structs.replace(reply, model=f"{self.model.name}/{self.model.model}")

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
            return
        except ServiceAway as away:
            message = f"the model {self.model.name} failed and is called again in {away.retry_after:.0f} s: {away}"
            error = ModelUnavailable(message, hint=away.hint, retry_after=away.retry_after)
        except CallFailed as failure:
            message = f"the model {self.model.name} is unavailable: {failure}"
            error = ModelUnavailable(message, hint=failure.hint, retry_after=failure.retry_after)
        except WindowExceeded as refusal:
            if (stated := stated_window(str(refusal))) is not None:
                self._stated[self.model.model] = stated
            raise
        except (AccessRefused, NoSuchModel) as refusal:
            self.calls.service.refused = refusal.line()
            raise
        raise error


class ModelClient:
    """A model block as its users call it, with the blocks that stand in for it.

    Calls are limited together with those of all other users of the same service, repeated, end by the timeout of the
    service, and are counted for their owner. While the model is unavailable, the fallbacks are asked in order, each
    with its own settings, but for those that a budget does not allow; never if the request itself is refused, for a
    wrong key or a model that does not exist, which a person must fix, and never after a part of a stream was yielded.
    """

    def __init__(self, first: CountedModel, fallback: Sequence[CountedModel] = ()) -> None:
        """`fallback`: the models of the block's fallbacks; their own fallbacks are not asked."""
        self._first = first
        self._fallback = tuple(fallback)

    @property
    def block(self) -> LanguageModel:
        """Return the block."""
        return self._first.block

    @property
    def name(self) -> str:
        """Return the row of the model: `ollama`, `openai` …"""
        return self._first.model.name

    @property
    def model(self) -> str:
        """Return the model, by the service's own name."""
        return self._first.model.model

    @property
    def holds_schema(self) -> bool:
        """True if replies can be held to a JSON Schema."""
        return self._first.model.holds_schema

    @property
    def schema_in_prompt(self) -> bool:
        """True if the schema of a reply takes tokens of the request."""
        return self._first.reads_schema

    @property
    def native_calls(self) -> bool:
        """True if tools can be offered by the model's own interface."""
        return self._first.model.native_calls

    @property
    def fallback(self) -> tuple[str, ...]:
        """Return the names of the blocks that are asked while the model is unavailable."""
        return tuple(counted.block.name for counted in self._fallback)

    async def reply(
        self,
        request: Request,
        *,
        owner: CallOwner,
        purpose: Purpose = "chat",
        temperature: float | None = None,
        count: Count | None = None,
    ) -> Reply:
        """Return the reply to `request`, whose temperature is replaced by `temperature`, or by that of the block that
        answers. `Reply.model` says which model answered. `count`: returns the tokens of a text, by which they are
        reserved where the owner's are limited; by default they are estimated.

        Raises ModelUnavailable if neither the model nor a fallback is available, ModelRefused, BudgetExceeded if the
        model itself is not allowed, and `Unavailable` if what is left of a budget cannot be read.
        """
        reasons = _Reasons()
        for counted in self._order(request):
            kind = counted.kind(request, owner, purpose, count)
            try:
                return await counted.reply(_with_temperature(request, counted.block, temperature), kind)
            except (ModelUnavailable, ModelRefused, BudgetExceeded) as error:
                reasons.note(error, first=counted is self._first)
        raise reasons.error()

    async def stream(
        self,
        request: Request,
        *,
        owner: CallOwner,
        purpose: Purpose = "chat",
        temperature: float | None = None,
        count: Count | None = None,
    ) -> AsyncGenerator[str | Reply, None]:
        """Yield parts of the reply's text as they arrive, then the whole reply; otherwise as `reply`.

        What was yielded before an error is no reply. A consumer that stops early should close the stream (`aclosing`),
        so that the service stops too; the call is counted in any case.
        """
        reasons, begun = _Reasons(), False
        for counted in self._order(request):
            kind = counted.kind(request, owner, purpose, count)
            parts = counted.stream(_with_temperature(request, counted.block, temperature), kind)
            async with aclosing(parts):
                try:
                    async for part in parts:
                        begun = True
                        yield part
                    return
                except (ModelUnavailable, ModelRefused, BudgetExceeded) as error:
                    if begun:
                        raise
                    reasons.note(error, first=counted is self._first)
        raise reasons.error()

    async def generate(
        self,
        prompt: str,
        *,
        system: str = "",
        max_tokens: int,
        owner: CallOwner,
        purpose: Purpose,
        count: Count | None = None,
    ) -> Reply:
        """Return the reply to a `prompt_request`, its text without reasoning and surrounding white space; it may be
        empty. Raises as `reply`."""
        request = prompt_request(prompt, system=system, max_tokens=max_tokens)
        reply = await self.reply(request, owner=owner, purpose=purpose, temperature=request.temperature, count=count)
        return structs.replace(reply, text=without_reasoning(reply.text))

    async def reachable(self) -> bool:
        """True if the model or a fallback answers at all. Cheap. Raises nothing."""
        for counted in (self._first, *self._fallback):
            if await counted.model.reachable():
                return True
        return False

    async def problems(self) -> list[Problem | None]:
        """Return the problem of the model and of each of its fallbacks now; None for those that answer. Cheap. Raises
        nothing."""
        return await asyncio.gather(*(counted.problem() for counted in (self._first, *self._fallback)))

    @property
    def known_problems(self) -> list[Problem | None]:
        """The result of `problems` by the last calls and looks. Asks nothing."""
        return [counted.known_problem for counted in (self._first, *self._fallback)]

    async def window(self) -> Window:
        """Return the window, see `CountedModel.window`."""
        return await self._first.window()

    async def count_tokens(self, texts: Sequence[str]) -> list[int] | None:
        """Return the number of tokens of each text by the model's own tokenizer; None if that is not available."""
        return await self._first.model.count_tokens(texts)

    @property
    def unopened_reasoning(self) -> bool:
        """True if the model was seen to reason without a mark at the begin: what it writes first may be reasoning."""
        return self._first.model.unopened_reasoning

    def note_unopened_reasoning(self, reply: Reply) -> None:
        """Note that the model of a reply reasons so, if it is this one."""
        if reply.model == f"{self.name}/{self.model}":
            self._first.model.unopened_reasoning = True

    def fallbacks_for(self, request: Request) -> ModelClient | None:
        """Return a client of the fallbacks that can be asked this; None without any."""
        others = self._order(request)[1:]
        return ModelClient(others[0], others[1:]) if others else None

    def without_fallback(self, model: str | None = None) -> ModelClient:
        """Return a client without fallbacks; with `model`, of another model of the same service."""
        return ModelClient(self._first if model is None else self._first.with_model(model))

    async def close(self) -> None:
        """Close the model, for a client whose model is not in a pool."""
        await self._first.model.close()

    def _order(self, request: Request) -> list[CountedModel]:
        """Return the models to ask. A fallback without native calls is left out if the request has tools."""
        return [self._first, *(each for each in self._fallback if each.model.native_calls or not request.tools)]


class _Reasons:
    """The errors of the models that did not answer."""

    def __init__(self) -> None:
        self._first: ModelUnavailable | None = None
        self._others: list[str] = []

    def note(self, error: SymbiontError, *, first: bool) -> None:
        """Note the error of the first model or of a fallback. Raises that of the first, unless it is unavailable."""
        if not first:
            # A fallback that a person must fix, or that is too dear, does not make the model itself unusable.
            self._others.append(error.line())
        elif isinstance(error, ModelUnavailable):
            self._first = error
        else:
            raise error

    def error(self) -> ModelUnavailable:
        """Return the error for the caller: that of the first model, and why no fallback answered."""
        assert self._first is not None
        if not self._others:
            return self._first
        others = "; ".join(self._others)
        return ModelUnavailable(
            f"{self._first}; no fallback answered: {others}",
            hint=self._first.hint,
            retry_after=self._first.retry_after,
        )


async def open_client(
    service: Variant, options: Mapping[str, object], *, clock: Clock = SYSTEM, root: Path = Path()
) -> ModelClient | None:
    """Open the model that a setting names by its row, without a pool; its calls are not recorded. The caller closes it.

    None for `none`. `root`: of relative paths. Raises UsageError as `open_model` does.
    """
    model = await open_model(service, options, root=root)
    if model is None:
        return None
    block = LanguageModel(name=service.name, service=service)
    return ModelClient(CountedModel(block, model, options, CallContext(Services(clock), clock=clock)))


def _with_temperature(request: Request, block: LanguageModel, temperature: float | None) -> Request:
    return structs.replace(request, temperature=block.temperature if temperature is None else temperature)


def _largest_usage(request: Request, count: Count | None) -> Usage:
    """Return the tokens that a request and its reply may have."""
    return Usage(tokens_in=request_tokens(request, count), tokens_out=request.max_tokens)


def _price(block: LanguageModel, url: str | None) -> Price:
    if block.input_price is not None or block.output_price is not None:
        return BlockPrice(block.input_price, block.output_price)
    return PublishedPrice(block.service.name, url)


def _defaults(options: type[BaseModel]) -> dict[str, object]:
    return {name: field.get_default(call_default_factory=True) for name, field in options.model_fields.items()}


def _url(value: object) -> str | None:
    return value if isinstance(value, str) else None

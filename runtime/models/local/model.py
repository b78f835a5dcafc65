"""`model local`: a language model in a GGUF file, run on this machine by llama.cpp."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Mapping, Sequence, Set
from contextlib import aclosing
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Final

from runtime import extras
from runtime.clock import SYSTEM, Clock
from runtime.errors import UsageError
from runtime.models.local.chat import body
from runtime.models.local.model_file import ModelFile, package_file, read_model_file
from runtime.models.local.options import LocalOptions
from runtime.models.local.process import SERVER
from runtime.models.local.runner import Runner
from runtime.models.model import ModelRefused, ModelUnavailable, NoSuchModel, Problem, Window
from runtime.models.openai_chat import ChatReader
from runtime.models.remote import RemoteModel
from runtime.models.request import Request
from runtime.outbound.http import CallFailed
from runtime.outbound.model_service import Refusal

LIBRARY: Final = "xllamacpp"


class LocalModel(RemoteModel):
    """A GGUF file. A worker process, which is the service, loads it for the first request; opening it only reads the
    file's header."""

    name = "local"
    schema_in_prompt = False
    _optional: ClassVar[Mapping[str, re.Pattern[str]]] = {}
    _schema_parameter = "grammar"

    def __init__(self, file: ModelFile, options: LocalOptions, *, clock: Clock = SYSTEM) -> None:
        super().__init__(file.name, "llama.cpp", options.timeout.total_seconds(), clock=clock)
        self.native_calls = file.calls
        self._file = file
        trained = file.trained or options.context
        if trained < options.context:
            self._window = Window(trained, "service")
        else:
            self._window = Window(options.context, "program" if "context" in options.model_fields_set else "default")
        self._runner = Runner(
            file,
            window=self._window.tokens,
            threads=options.threads or max(1, _processors() - 1),
            idle=options.idle,
            timeout=options.timeout,
        )

    async def problem(self) -> Problem | None:
        return None if self._runner.is_loaded else await super().problem()

    @property
    def known_problem(self) -> Problem | None:
        return None if self._runner.is_loaded else super().known_problem

    async def reachable(self) -> bool:
        return await self.problem() is None

    async def window(self) -> Window | None:
        return self._window

    async def count_tokens(self, texts: Sequence[str]) -> list[int] | None:
        try:
            return await self._runner.count_tokens([each.encode("utf-8", "replace").decode() for each in texts])
        except (ModelUnavailable, ModelRefused, CallFailed):
            return None

    async def close(self) -> None:
        await self._runner.close()

    async def _lines(self, sent: dict[str, Any]) -> AsyncGenerator[bytes, None]:
        if self.model != self._file.name:
            raise NoSuchModel(f"the model local has no {self.model}", hint=f"its file is {self._file.path}")
        try:
            async with aclosing(self._runner.lines(sent)) as lines:
                async for line in lines:
                    yield line
        except ModelUnavailable as error:
            if not self._runner.is_loaded:
                self._reachability.note(Problem.of(error))
            raise

    def _address(self) -> tuple[str, dict[str, str]]:
        return SERVER, {}

    def _body(self, request: Request, unknown: Set[str], *, stream: bool) -> dict[str, Any]:
        return body(request)

    def _new_reader(self) -> ChatReader:
        return ChatReader()

    def _service_refusal(self, failure: CallFailed) -> Refusal:
        return Refusal(f"the model local refuses the request: {failure.detail}", failure.hint)

    async def _look(self) -> Problem | None:
        return await asyncio.to_thread(_problem_of, self._file.path)


async def open_local(options: Mapping[str, object]) -> LocalModel:
    """Open the model of this row, and load nothing. Raises UsageError if the extra or the package with the model is
    missing, or if the file is not a language model."""
    read = LocalOptions.model_validate(options)
    return LocalModel(await asyncio.to_thread(_model_file, read), read)


def _model_file(options: LocalOptions) -> ModelFile:
    has_library = find_spec(LIBRARY) is not None
    try:
        path = package_file(options.package) if options.path is None else Path(options.path)
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

"""Runs the tool calls of one step. Every call is a recorded step of the run, and a tool's error is its output."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
import structlog
from msgspec import Struct

from runtime.database.errors import Unavailable
from runtime.errors import NotFound, SymbiontError
from runtime.identity.caller import Caller
from runtime.memory.errors import FsyncFailed
from runtime.threads.run_log import RunLog
from runtime.threads.step import StepUncertain, Superseded
from runtime.tool_servers.errors import CallUncertain
from runtime.tools.failure import failure_of
from runtime.tools.tool import Tool

log = structlog.get_logger("symbiont.agent")

TOOL_SECONDS: Final = 60.0
"""Seconds that a tool may take; `LONG_TOOL_SECONDS` for one whose row says that it may take minutes."""
LONG_TOOL_SECONDS: Final = 600.0

Status = Literal["ok", "error", "unknown"]

UNKNOWN: Final = (
    "The daemon or its database stopped while this call was running, so it is not known whether it happened. It is not "
    "repeated. Check before you call it again."
)

_UNCERTAIN: Final = "so it is not known whether it happened. Check before you repeat it."


class Call(Struct, frozen=True):
    """A tool call of a reply. `id`: unique in the run, the same in every attempt."""

    id: str
    name: str
    arguments: Mapping[str, Any]


class CallOutput(Struct, frozen=True):
    """The output of a call. `unknown`: it was begun, did not end as it should, and may have happened."""

    status: Status
    text: str


Answer = Callable[[Call], Awaitable[str]]
"""Calls a tool for a call of the model; returns its result as text. Raises SymbiontError."""


class Runner:
    """Runs calls for one run. `tools`: by the name that the model uses. `answer`: calls one of them. `refused`: why
    none is called; None if they are."""

    def __init__(
        self,
        tools: Mapping[str, Tool],
        answer: Answer,
        run_log: RunLog,
        caller: Caller,
        refused: SymbiontError | None = None,
    ) -> None:
        self._refused = refused
        self._tools = tools
        self._answer = answer
        self._log = run_log
        self._caller = caller

    async def run(self, calls: Sequence[Call]) -> list[CallOutput]:
        """Run calls in order, and return their outputs. Calls that follow each other and only read run together.

        Raises `Unavailable`, `Superseded` and FsyncFailed; every other error is an output.
        """
        outputs: list[CallOutput] = []
        for together in self._batches(calls):
            # All of them are awaited, so that none is left running when one raises.
            done = await asyncio.gather(*map(self._one, together), return_exceptions=True)
            for each in done:
                if isinstance(each, BaseException):
                    raise each
                outputs.append(each)
        return outputs

    def _batches(self, calls: Sequence[Call]) -> Iterator[list[Call]]:
        reading: list[Call] = []
        for call in calls:
            if (tool := self._tools.get(call.name)) is not None and tool.read_only:
                reading.append(call)
                continue
            if reading:
                yield reading
                reading = []
            yield [call]
        if reading:
            yield reading

    async def _one(self, call: Call) -> CallOutput:
        tool = self._tools.get(call.name)
        # A call that an earlier attempt began is not repeated if none is called any more.
        repeatable = self._refused is None and (tool is None or tool.repeatable)

        async def act() -> CallOutput:
            return await self._output(call, tool)

        intent = {"tool": call.name, "arguments": call.arguments}
        try:
            done = await self._log.step("tool", intent, act, key=f"call/{call.id}", repeatable=repeatable)
        except StepUncertain:
            return CallOutput("unknown", UNKNOWN)
        return msgspec.convert(done, CallOutput)

    async def _output(self, call: Call, tool: Tool | None) -> CallOutput:
        seconds = LONG_TOOL_SECONDS if tool is not None and tool.long else TOOL_SECONDS
        try:
            if self._refused is not None:
                raise self._refused
            async with asyncio.timeout(seconds):
                return CallOutput("ok", await self._answer(call))
        except Unavailable:
            # Of the daemon, not of the tool. Another attempt repeats the call, if that does no harm.
            if tool is not None and not tool.repeatable:
                return CallOutput("unknown", UNKNOWN)
            raise
        except (Superseded, FsyncFailed):
            raise
        except SymbiontError as error:
            return self._failed(error, tool)
        except TimeoutError:
            late = f"{call.name} did not answer within {seconds:g} seconds"
            if tool is None or tool.read_only:
                return CallOutput("error", late)
            return CallOutput("unknown", f"{late}, {_UNCERTAIN}")
        except Exception:
            log.exception("tool_failed", tool=call.name)
            return CallOutput("error", f"{call.name} failed because of an error of the program; it is in the log")

    def _failed(self, error: SymbiontError, tool: Tool | None) -> CallOutput:
        """Return the output of a call that raised `error`."""
        if isinstance(error, NotFound):
            return CallOutput("error", error.line())
        if isinstance(error, CallUncertain) and tool is not None and not tool.repeatable:
            return CallOutput("unknown", f"{error}, {_UNCERTAIN}")
        failure = failure_of(error, tool, self._caller)
        return CallOutput("error", msgspec.json.encode(failure.json()).decode())

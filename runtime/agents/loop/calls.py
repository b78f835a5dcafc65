"""Runs the tool calls of one step. Every call is a recorded step of the run, and a tool's error is its output."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import structlog

from dslc.blocks.values.quantity import format_duration
from runtime.agents.loop.call import UNCERTAIN, UNKNOWN, Call, CallOutput, output_of, step_key
from runtime.agents.loop.confirmations import Confirmations
from runtime.database.errors import Unavailable
from runtime.errors import SymbiontError
from runtime.identity.caller import Caller
from runtime.memory.errors import FsyncFailed
from runtime.threads.approvals.approval import Approval
from runtime.threads.run_log import RunLog
from runtime.threads.step import StepUncertain, Superseded
from runtime.tools.tool import Tool

log = structlog.get_logger("symbiont.agent")

TOOL_SECONDS: Final = 60.0
"""Seconds that a tool may take; `LONG_TOOL_SECONDS` for one whose row says that it may take minutes."""
LONG_TOOL_SECONDS: Final = 600.0

Answer = Callable[[Call], Awaitable[str]]
"""Calls a tool for a call of the model; returns its result as text. Raises SymbiontError."""


class CallOutputs(NamedTuple):
    """The outputs of the first calls; all of them unless one waits. `waits`: the approvals that calls wait for, first
    that of the call without an output."""

    outputs: list[CallOutput]
    waits: tuple[Approval, ...]


class Runner:
    """Runs calls for one run. `tools`: by the name that the model uses. `answer`: calls one of them. `refused`: why
    none is called; None if they are."""

    def __init__(
        self,
        tools: Mapping[str, Tool],
        answer: Answer,
        run_log: RunLog,
        caller: Caller,
        confirmations: Confirmations,
        refused: SymbiontError | None = None,
    ) -> None:
        self._refused = refused
        self._tools = tools
        self._answer = answer
        self._log = run_log
        self._caller = caller
        self._confirmations = confirmations

    def tool_name(self, name: str) -> str:
        """Return the tool's own name, by the name that the model uses; that one if there is no such tool."""
        tool = self._tools.get(name)
        return name if tool is None else tool.name

    def any_guarded(self, calls: Sequence[Call]) -> bool:
        """Return True if a person has to confirm some of these calls."""
        return self._refused is None and any(map(self._confirmations.is_guarded, calls))

    async def run(self, calls: Sequence[Call]) -> CallOutputs:
        """Run calls in order, until one waits for a person, and return their outputs. Calls that follow each other and
        only read run together. A person is asked about all of them at once.

        Raises `Unavailable`, `Superseded` and FsyncFailed; every other error is an output.
        """
        verdicts = {} if self._refused is not None else await self._confirmations.verdicts(calls)
        waits = [verdict for verdict in verdicts.values() if isinstance(verdict, Approval)]
        outputs: list[CallOutput] = []
        for together in self._batches(calls, verdicts):
            verdict = verdicts.get(together[0].id)
            if isinstance(verdict, Approval):
                return CallOutputs(outputs, tuple(waits))
            # All of them are awaited, so that none is left running when one raises.
            done = await asyncio.gather(*(self._one(each, verdict) for each in together), return_exceptions=True)
            for each in done:
                if isinstance(each, BaseException):
                    raise each
                outputs.append(each)
        return CallOutputs(outputs, ())

    def _batches(self, calls: Sequence[Call], alone: Collection[str]) -> Iterator[list[Call]]:
        """Yield the calls that run together. `alone`: the ids of calls that run with no other."""
        reading: list[Call] = []
        for call in calls:
            tool = self._tools.get(call.name)
            if tool is not None and tool.read_only and call.id not in alone:
                reading.append(call)
                continue
            if reading:
                yield reading
                reading = []
            yield [call]
        if reading:
            yield reading

    async def _one(self, call: Call, verdict: CallOutput | None) -> CallOutput:
        tool = self._tools.get(call.name)
        # A call that an earlier attempt began is not repeated if none is called any more.
        repeatable = verdict is not None or (
            self._refused is None and (tool is None or tool.repeatable(call.arguments))
        )

        async def act() -> CallOutput:
            return await self._output(call, tool) if verdict is None else verdict

        intent = {"tool": call.name, "arguments": call.arguments}
        try:
            done = await self._log.step("tool", intent, act, key=step_key(call.id), repeatable=repeatable)
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
            if tool is not None and not tool.repeatable(call.arguments):
                return CallOutput("unknown", UNKNOWN)
            raise
        except (Superseded, FsyncFailed):
            raise
        except SymbiontError as error:
            return output_of(error, tool, self._caller, call.arguments)
        except TimeoutError:
            late = f"{call.name} did not answer within {format_duration(seconds)}"
            if tool is None or tool.only_reads(call.arguments):
                return CallOutput("error", late)
            return CallOutput("unknown", f"{late}, {UNCERTAIN}")
        except Exception:
            log.exception("tool_failed", tool=call.name)
            return CallOutput("error", f"{call.name} failed because of an error of the program; it is in the log")

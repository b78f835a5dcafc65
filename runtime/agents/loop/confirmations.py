"""Calls that a person has to confirm: what was decided about them, and which of them wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from dslc.blocks.values.tool import guards
from runtime.agents.loop.call import UNKNOWN, Call, CallOutput, arguments_json, output_of, step_key
from runtime.identity.caller import Caller
from runtime.threads.approvals.approval import APPROVED, AWAITING, DENIED, EXPIRED, Approval, Question, digest_of
from runtime.threads.approvals.asking import Asker
from runtime.threads.approvals.store import Approvals
from runtime.threads.run_log import RunLog
from runtime.tools.tool import Tool, WrongParameters

_CHANGED: Final = (
    "This call was not run: the tool has changed since a person was asked about it. Nothing was changed. Call it again "
    "if you still want it."
)
_NOBODY: Final = "This call was denied, because nobody answered in time. Nothing was changed."
_ENDED: Final = "This call was not run: the turn ended before a person had decided about it. Nothing was changed."

_GONE: Final = ""
"""In place of the hash of a call whose tool the agent does not have any more."""

Verdict: TypeAlias = CallOutput | Approval
"""The output of a call that is not run, or the approval for which it waits."""


class Confirmations:
    """The confirmations of one attempt at a run."""

    def __init__(
        self,
        patterns: Sequence[str],
        tools: Mapping[str, Tool],
        approvals: Approvals,
        run_log: RunLog,
        caller: Caller,
        by: Asker,
        seconds: float,
    ) -> None:
        """`patterns`: of the names of tools whose calls are to be confirmed. `tools`: by the name that the model uses.
        `seconds`: how long a call waits for a person."""
        self._patterns = tuple(patterns)
        self._tools = tools
        self._approvals = approvals
        self._log = run_log
        self._caller = caller
        self._by = by
        self._seconds = seconds
        self._asked_ids: frozenset[str] | None = None

    async def verdicts(self, calls: Sequence[Call]) -> dict[str, Verdict]:
        """Ask about those calls that need it, all of them at once, and return by the ids of calls what is decided about
        those that may not run, or not yet. Raises `Superseded`, `Unavailable`."""
        known = await self._asked_call_ids()
        found: dict[str, Verdict] = {}
        questions: dict[str, Question] = {}
        for call in calls:
            tool = self._tools.get(call.name)
            if not await self._needs_verdict(call, asked=call.id in known):
                continue
            try:
                if tool is not None and call.id not in known:
                    tool.check(call.arguments)
            except WrongParameters as error:
                # A person is not asked about a call that cannot be run.
                found[call.id] = output_of(error, tool, self._caller, call.arguments)
            else:
                questions[call.id] = _question(call, tool)
        if questions:
            stored = await self._approvals.ask(self._by, tuple(questions.values()), self._seconds)
            for call_id, approval in stored.items():
                begun = await self._log.has_begun(step_key(call_id))
                if (verdict := _verdict(questions[call_id], approval, begun=begun)) is not None:
                    found[call_id] = verdict
        return found

    def is_guarded(self, call: Call) -> bool:
        """Return True if the program wants this call to be confirmed."""
        tool = self._tools.get(call.name)
        return tool is not None and any(guards(each, tool.name) for each in self._patterns)

    async def _needs_verdict(self, call: Call, *, asked: bool) -> bool:
        """Return True if it is to be found out whether a call may run. `asked`: an earlier attempt asked about it; what
        was decided counts for a repetition too, because an attempt also begins calls that were denied, to record it."""
        if asked:
            return not await self._log.has_ended(step_key(call.id))
        return self.is_guarded(call) and not await self._log.has_begun(step_key(call.id))

    async def _asked_call_ids(self) -> frozenset[str]:
        """Return the ids of the calls about which earlier attempts asked. What a person decided about them holds, also
        if the program has changed since."""
        if self._asked_ids is None:
            self._asked_ids = frozenset()
            if self._log.attempt > 1:
                self._asked_ids = await self._approvals.calls_of(self._by.run_id)
        return self._asked_ids


def decided_output(approval: Approval) -> CallOutput:
    """Return the output of a call that was not approved."""
    if approval.state == DENIED:
        why = f": {approval.reason}" if approval.reason else "."
        return CallOutput("error", f"A person denied this call{why}")
    return CallOutput("error", _NOBODY if approval.state == EXPIRED else _ENDED)


def _question(call: Call, tool: Tool | None) -> Question:
    if tool is None:
        return Question(call.id, call.name, "", _GONE)
    digest, definition = digest_of(tool.name, call.arguments, tool.exact), digest_of(tool.name, {}, tool.definition)
    return Question(call.id, tool.name, arguments_json(call.arguments), digest, definition, tool.server)


def _verdict(question: Question, approval: Approval | None, *, begun: bool) -> Verdict | None:
    """Return the verdict on a call; None if it may run. `begun`: an earlier attempt began it."""
    if approval is None:
        return None
    if approval.state not in (AWAITING, APPROVED):
        return decided_output(approval)
    if begun and approval.state == APPROVED and approval.digest != question.digest:
        return CallOutput("unknown", UNKNOWN)
    if question.digest == _GONE:
        # The output of the call says that there is no such tool.
        return None
    if approval.state == AWAITING:
        return approval
    # What was approved is exactly what runs.
    return None if approval.digest == question.digest else CallOutput("error", _CHANGED)

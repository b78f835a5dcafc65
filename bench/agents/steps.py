"""`python -m bench.agents.steps [--json] [--messages N] [--turns N] [--window N] [--conversations N]`: own work.

Two agents in this process answer turns of a few steps, in turns: one in a thread of 10 messages, one in a thread of N.
Each step but the last one of a turn has a call of a tool that only reads. The model is an HTTP server in a process of
its own, which answers at once. A *step* is the time from a reply of the model to the next request, the *first* step of
a turn that from its message to the request. *Own* is its elapsed time without that of the commits, *processor* the time
of the event loop's thread, and *all* the processor time of all threads from one request to the next, commits and HTTP
included.

Then several conversations at once with a real daemon, as by `symbi chat --new`, each of a few messages. *Answered once*
counts the messages that were, and *processor* is the daemon's time for a step.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench.harness.report import Ratio, command_line, ratio_table, show
from bench.harness.scripted_model import TOOL, served
from runtime.cli.chat.conversation import Conversation
from runtime.daemon.process import log_setup
from runtime.daemon.process.root import Root
from runtime.daemon.server import LOOKS_FOR_CYCLES
from runtime.models.remote import RemoteModel
from runtime.models.request import Reply, Request
from runtime.threads.content import TextPart
from runtime.threads.messages import NewMessage
from runtime.threads.thread import Thread
from runtime.threads.turns.named_run import named_run
from tests.runtime.agents.loop.acting import Acting, acting
from tests.runtime.daemon.running import BIN, running, write_program

SHORT = 10
LONG = 10_000
TURNS = 30
WINDOW = 8_192
CONVERSATIONS = 64
STEPS = 4
"""Model calls of a turn."""
_EACH = 4
"""Messages of a conversation."""
_AT_ONCE = 500
_WARM = 3
"""Turns that are not counted: they load what is loaded once, and summarize."""
_LOOK_SECONDS = 0.1
_FIGURES = ("own", "processor", "all", "elapsed", "commits")
_SAID = "The kettle is on the left shelf, number {number}, and the tea beside it is from the shop at the corner."
_PROGRAM = """\
memory notes {{ store collection embedding hashing }}
{model}
agent helper {{ memory notes model scripted instruction "You help." tools ["{tool}" "memory_append"] }}
"""


class Step(NamedTuple):
    """Milliseconds, see the docstring of the module. `commits`: in transactions."""

    elapsed: float
    commits: float
    processor: float
    all: float

    @property
    def own(self) -> float:
        return self.elapsed - self.commits


class Talker:
    """An agent and the steps of its turns: the first ones, and the others."""

    def __init__(self, agent: Acting, thread: Thread) -> None:
        self.first: list[Step] = []
        self.later: list[Step] = []
        self._agent = agent
        self._thread = thread
        self._commits = 0.0
        self._is_first = True
        agent.app.state.database.commits.on_commit = self._committed
        self.replied()

    async def ask(self, number: int) -> None:
        """Ask a question and wait for the end of its run."""
        self._is_first = True
        self.replied()
        self._before = time.process_time()
        run_id = await self._agent.send(f"What do you know about tea number {number}?", thread=self._thread)
        # Seldom, because it is work of the same thread.
        await asyncio.sleep(_LOOK_SECONDS)
        while (run := await named_run(self._agent.app.state.database, run_id, self._thread.user_id)).living is not None:
            await asyncio.sleep(_LOOK_SECONDS)
        assert run.run.ended == "answered", run

    def asked(self) -> None:
        """Note that the model is asked now."""
        times = (
            time.perf_counter() - self._since,
            self._commits - self._committed_before,
            time.thread_time() - self._thread_before,
            time.process_time() - self._before,
        )
        (self.first if self._is_first else self.later).append(Step(*(1_000 * each for each in times)))
        self._is_first = False
        self._before = time.process_time()

    def replied(self) -> None:
        """Note that the model has replied now."""
        self._since, self._committed_before, self._thread_before = (
            time.perf_counter(),
            self._commits,
            time.thread_time(),
        )

    def _committed(self, _writes: int, seconds: float) -> None:
        self._commits += seconds


async def steps(folder: Path, messages: int, turns: int, block: str) -> tuple[Talker, Talker]:
    """Return what a short and a long thread took, their turns one after the other."""
    async with _talker(folder / "short", SHORT, block) as short, _talker(folder / "long", messages, block) as long:
        for number in range(_WARM + turns):
            for talker in (short, long):
                if number == _WARM:
                    talker.first, talker.later = [], []
                with _noted(talker):
                    await talker.ask(number)
        return short, long


@asynccontextmanager
async def _talker(folder: Path, messages: int, block: str) -> AsyncIterator[Talker]:
    """Yield an agent whose thread has this many messages."""
    folder.mkdir()
    async with acting(folder, _PROGRAM.format(model=block, tool=TOOL)) as agent:
        thread = await agent.main()
        for begin in range(0, messages, _AT_ONCE):
            some = range(begin, min(begin + _AT_ONCE, messages))
            await agent.services.messages.append(thread, [_message(number) for number in some])
        yield Talker(agent, thread)


@contextmanager
def _noted(talker: Talker) -> Iterator[None]:
    """Tell the talker about calls of the model."""
    whole = RemoteModel.reply

    async def reply(self: RemoteModel, request: Request) -> Reply:
        talker.asked()
        try:
            return await whole(self, request)
        finally:
            talker.replied()

    RemoteModel.reply = reply  # type: ignore[method-assign]
    try:
        yield
    finally:
        RemoteModel.reply = whole  # type: ignore[method-assign]


def _message(number: int) -> NewMessage:
    said = (TextPart(_SAID.format(number=number)),)
    return NewMessage(role="assistant" if number % 2 else "user", parts=said, tokens=40)


class Talks(NamedTuple):
    """Conversations at once. `answers`: seconds of each; `processor`: milliseconds of the daemon for a step."""

    conversations: int
    sent: int
    answered_once: int
    seconds: float
    answers: Sequence[float]
    processor: float


def conversations(root: Path, number: int, each: int, block: str) -> Talks:
    """Have conversations at once with a daemon of its own process."""
    root.mkdir()
    write_program(root, _PROGRAM.format(model=block, tool=TOOL))
    with running(root, "program", command=(BIN / "symbi",)) as daemon, ThreadPoolExecutor(number) as pool:
        place = Root(root)
        talks = list(pool.map(lambda _: Conversation.open(place, None, None, new=True), range(number)))
        before, began = _processor(daemon.process.pid), time.perf_counter()
        done = list(itertools.chain.from_iterable(pool.map(lambda talk: _talk(talk, each), talks)))
        seconds = time.perf_counter() - began
        spent = _processor(daemon.process.pid) - before
        lengths = [Conversation.open(place, None, None, new=False, thread=talk.thread).messages for talk in talks]
    answered = sum(taken is not None for taken in done)
    # The message, a call and its output in each step but the last one, and the answer.
    twice = sum(length != each * 2 * STEPS for length in lengths)
    answers = [taken for taken in done if taken is not None]
    return Talks(number, len(done), answered - twice, seconds, answers, 1_000 * spent / (len(done) * STEPS))


def _talk(talk: Conversation, each: int) -> list[float | None]:
    """Return the seconds until each answer; None for a message that was not answered once."""
    found: list[float | None] = []
    for number in range(each):
        began = time.perf_counter()
        answer = talk.ask(f"What do you know about tea number {number}?", show=lambda event: None)
        well = answer["ended"] == "answered" and len(answer["messages"]) == 1
        found.append(time.perf_counter() - began if well else None)
    return found


def _processor(pid: int) -> float:
    """Return the processor seconds of a process (proc_pid_stat(5))."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(
    messages: int = LONG,
    turns: int = TURNS,
    window: int = WINDOW,
    number: int = CONVERSATIONS,
    each: int = _EACH,
) -> dict[str, Any]:
    """Measure both. `window`: tokens of the model's window. `number`: conversations, of `each` messages."""
    with tempfile.TemporaryDirectory() as folder, served(STEPS, f"window {window}") as block:
        short, long = asyncio.run(steps(Path(folder), messages, turns, block))
        talks = conversations(Path(folder) / "talks", number, each, block)
    own, processor = ([_median(each.later, name) for each in (short, long)] for name in ("own", "processor"))
    return {
        "milliseconds": {
            f"{kind}, {count:,} messages": {name: _median(some, name) for name in _FIGURES}
            for count, talker in ((SHORT, short), (messages, long))
            for kind, some in (("first step", talker.first), ("step", talker.later))
        },
        "talks": talks,
        "ratios": [
            Ratio("own work of a step, ms", own[1], "at most 10"),
            Ratio(f"own work, {messages:,} / {SHORT} messages", own[1] / own[0], "near 1"),
            Ratio(f"processor, {messages:,} / {SHORT} messages", processor[1] / processor[0], "near 1"),
            Ratio("messages answered once / sent", talks.answered_once / talks.sent, "1"),
        ],
    }


def _median(some: Sequence[Step], name: str) -> float:
    return float(statistics.median(getattr(step, name) for step in some))


def table(result: dict[str, Any]) -> str:
    """Return the measurement as Markdown tables."""
    lines = [f"| p50, ms | {' | '.join(_FIGURES)} |", "|---|---:|---:|---:|---:|---:|"]
    for name, row in result["milliseconds"].items():
        lines.append(f"| {name} | {' | '.join(f'{row[each]:.1f}' for each in _FIGURES)} |")
    talks: Talks = result["talks"]
    middle, slow = statistics.median(talks.answers), max(talks.answers)
    said = (
        f"{talks.conversations} conversations at once: {talks.sent} messages, {talks.answered_once} answered once, "
        f"{talks.sent / talks.seconds:.1f} turns and {talks.sent * STEPS / talks.seconds:.0f} steps each second; an "
        f"answer took {middle:.2f} s (p50), at most {slow:.2f} s; {talks.processor:.1f} ms of processor time a step"
    )
    return "\n".join([*lines, "", said, *ratio_table(result["ratios"])])


def main() -> None:
    parser = command_line(
        "agents.steps",
        __doc__,
        messages=(LONG, "messages of the long thread"),
        turns=(TURNS, "measured turns in each thread"),
        window=(WINDOW, "tokens of the model's window"),
        conversations=(CONVERSATIONS, "conversations at once"),
    )
    options = parser.parse_args()
    log_setup.configure("text", "error")
    # As in the daemon; the harness turns it off.
    gc.enable()
    gc.set_threshold(*LOOKS_FOR_CYCLES)
    show(measure(options.messages, options.turns, options.window, options.conversations), table, as_json=options.json)


if __name__ == "__main__":
    main()

"""`python -m bench.agents.chat [--json] [--turns N] [--steps N]`: what `/v1/agent/chat` costs over the loop.

One agent of this process answers the same message in three ways, in turns: *loop*, a message that is sent in the
process, until its run has ended; *stream*, a chat over HTTP with server-sent events, until `agent.done` has arrived;
*json*, a chat over HTTP until the answer has arrived. The model is an HTTP server in a process of its own, which
answers at once. The client runs in this process as well, so its work counts. The *events* are the time that the event
log takes in the transactions of a turn.
"""

from __future__ import annotations

import asyncio
import gc
import json
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, web

from bench.harness.report import Ratio, command_line, ratio_table, show
from bench.harness.scripted_model import TOOL, served
from runtime.daemon.listeners.operators import operators
from runtime.daemon.process import log_setup
from runtime.daemon.server import LOOKS_FOR_CYCLES
from runtime.database.schema import OWNER
from runtime.threads.events import log as event_log
from runtime.threads.events.log import NewEvents, changes_of
from runtime.threads.events.run_event import LAST
from runtime.threads.turns.named_run import named_run
from tests.runtime.agents.loop.acting import Acting, acting

TURNS = 200
STEPS = 1
"""Model calls of a turn."""
_WARM = 10
"""Turns of each kind that are not counted."""
_SAID = "What do you know about tea?"
_PROGRAM = """\
memory notes {{ store collection embedding hashing }}
{model}
agent helper {{ memory notes model scripted instruction "You help." tools ["{tool}"] }}
"""

Turn = Callable[[], Awaitable[None]]


@asynccontextmanager
async def _client(agent: Acting) -> AsyncIterator[ClientSession]:
    """Serve `/v1` as the daemon does, and yield a client with a token."""
    made = await agent.app.state.tokens.create(OWNER, label="bench", scopes=["write"])
    assert made is not None
    runner = web.AppRunner(operators(agent.app, lambda: True, local=True), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    async with ClientSession(url, headers={"Authorization": f"Bearer {made.token}"}) as session:
        yield session
    await runner.cleanup()


async def _loop(agent: Acting) -> None:
    """Send a message in this process, and return when its run has ended and was looked up."""
    with agent.app.state.database.changes.watch(changes_of(OWNER)) as changed:
        run_id = await agent.send(_SAID)
        while True:
            changed.clear()
            # What this process tells; as over HTTP, nothing is read before the end.
            told = (event for each in changed.events if isinstance(each, NewEvents) for event in each.of(run_id, None))
            if any(event.name in LAST for event in told):
                assert (await named_run(agent.app.state.database, run_id, OWNER)).run.ended == "answered"
                return
            await changed.wait()


async def _stream(client: ClientSession) -> None:
    headers = {"Accept": "text/event-stream"}
    async with client.post("/v1/agent/chat", json={"input": _SAID}, headers=headers) as response:
        async for line in response.content:
            if line == b"event: agent.done\n":
                return
    raise AssertionError("the stream ended without an end of the run")


async def _json(client: ClientSession) -> None:
    async with client.post("/v1/agent/chat", json={"input": _SAID}) as response:
        assert json.loads(await response.read())["ended"] == "answered"


async def turns(folder: Path, number: int, block: str) -> dict[str, list[float]]:
    """Return the milliseconds of each turn by kind."""
    found: dict[str, list[float]] = {"loop": [], "stream": [], "json": [], "events": []}
    async with acting(folder, _PROGRAM.format(model=block, tool=TOOL)) as agent, _client(agent) as client:
        kinds: dict[str, Turn] = {
            "loop": partial(_loop, agent),
            "stream": partial(_stream, client),
            "json": partial(_json, client),
        }
        agent.app.daemon.cancel_run = agent.dispatcher.cancel
        logged = _timed_log()
        for _ in range(_WARM + number):
            for kind, turn in kinds.items():
                logged.clear()
                began = time.perf_counter()
                await turn()
                found[kind].append(1_000 * (time.perf_counter() - began))
                found["events"].append(1_000 * sum(logged))
    return {kind: some[_WARM * (len(kinds) if kind == "events" else 1) :] for kind, some in found.items()}


def _timed_log() -> list[float]:
    """Note the seconds that each transaction spends on events from now on."""
    store, spent = vars(event_log)["_store"], list[float]()

    def timed(*given: Any) -> None:
        began = time.perf_counter()
        store(*given)
        spent.append(time.perf_counter() - began)

    setattr(event_log, "_store", timed)  # noqa: B010 - a private name
    return spent


def measure(number: int = TURNS, steps: int = STEPS) -> dict[str, Any]:
    """Measure `number` turns of each kind, of `steps` steps."""
    with tempfile.TemporaryDirectory() as folder, served(steps) as block:
        found = asyncio.run(turns(Path(folder), number, block))
    middle = {kind: _median(some) for kind, some in found.items()}
    return {
        "milliseconds": middle,
        "ratios": [
            Ratio("stream - loop, ms at p50", middle["stream"] - middle["loop"], "at most 5"),
            Ratio("json - loop, ms at p50", middle["json"] - middle["loop"], "at most 5"),
            Ratio("stream / loop", middle["stream"] / middle["loop"], "near 1"),
            Ratio("json / loop", middle["json"] / middle["loop"], "near 1"),
        ],
    }


def _median(some: Sequence[float]) -> float:
    return float(statistics.median(some))


def table(result: dict[str, Any]) -> str:
    """Return the measurement as Markdown tables."""
    lines = ["| p50 of a turn | ms |", "|---|---:|"]
    lines += [f"| {kind} | {value:.2f} |" for kind, value in result["milliseconds"].items()]
    return "\n".join([*lines, *ratio_table(result["ratios"])])


def main() -> None:
    parser = command_line(
        "agents.chat", __doc__, turns=(TURNS, "measured turns of each kind"), steps=(STEPS, "model calls of a turn")
    )
    options = parser.parse_args()
    log_setup.configure("text", "error")
    # As in the daemon; the harness turns it off.
    gc.enable()
    gc.set_threshold(*LOOKS_FOR_CYCLES)
    show(measure(options.turns, options.steps), table, as_json=options.json)


if __name__ == "__main__":
    main()

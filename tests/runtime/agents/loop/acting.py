"""An agent with a scripted model in this process: its program, database, dispatcher and threads are real."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import or_, select

from runtime.daemon.process import master_key
from runtime.daemon.process.atomic_file import write_atomically
from runtime.daemon.process.root import DATABASE_FILE, Root
from runtime.daemon.process.settings import ProcessSettings
from runtime.daemon.process.systemd import Notifier
from runtime.daemon.program.app import App
from runtime.daemon.server import Daemon
from runtime.database.schema import OWNER, runs
from runtime.identity.caller import Scope
from runtime.memory.core.block import BlockScope
from runtime.threads.inputs import Inputs
from runtime.threads.messages import Message
from runtime.threads.run import ENDED
from runtime.threads.thread import Thread
from runtime.webhooks.receiving.admission import Admission
from tests.conftest import KEY, KEY_BYTES
from tests.databases import with_keys
from tests.runtime.agents.scripted import ScriptedModel
from tests.runtime.daemon.running import write_program
from tests.runtime.webhooks.candidates import candidate

PROGRAM = """\
memory notes {{ path "notes" embedding hashing }}
{models}
webhook pushes {{ path "/w" insecure_allow_unverified true agent helper }}
agent helper {{ memory notes {model} instruction "You help." {more} }}
"""


class Acting:
    """The agent `helper` and its dispatcher."""

    def __init__(self, app: App) -> None:
        self.app = app
        self._begin()
        self.services = app.state.services
        self.inputs = Inputs(app.state.database, app.state.clock)
        self._deliveries = 0

    async def reload(self, text: str) -> None:
        """Load another program, as when its file has changed."""
        self.app.paths[0].write_text(text)
        assert await self.app.reload()

    def _begin(self) -> None:
        self.dispatcher = Daemon(self.app, Notifier({}))._dispatcher
        self.running = asyncio.create_task(self.dispatcher.run())

    async def kill(self) -> None:
        """Interrupt all runs, as a kill does: no end of an attempt is stored. Another dispatcher goes on."""
        interrupted = [self.running, *self.dispatcher._running]
        for task in interrupted:
            task.cancel()
        await asyncio.wait(interrupted)
        self._begin()

    async def main(self, user_id: str = OWNER) -> Thread:
        return await self.services.threads.main(user_id, "helper")

    async def send(
        self, text: str, *, thread: Thread | None = None, user_id: str = OWNER, scopes: Iterable[Scope] = ("write",)
    ) -> str:
        """Send a message and return the id of its run."""
        place = thread or await self.main(user_id)
        run_id = await self.inputs.send(place.user_id, "helper", place.id, text, scopes)
        self.dispatcher.wake()
        return run_id

    async def deliver(self, payload: object, user_id: str = OWNER) -> str:
        """Admit a delivery and return its id."""
        self._deliveries += 1
        body = json.dumps(payload).encode()
        more: dict[str, Any] = {"webhook": "pushes", "agent": "helper", "user_id": user_id}
        given = candidate(str(self._deliveries), body=body, content_type="application/json", **more)
        assert given.body_sha256 == hashlib.sha256(body).hexdigest()
        decision = await Admission(self.app.state.database, self.app.state.clock).admit(given)
        self.dispatcher.wake()
        return decision.delivery_id

    async def run(self, turn_id: str) -> Any:
        """Return the row of the run of a message or a delivery; None before its first attempt."""
        of_turn = or_(runs.c.id == turn_id, runs.c.delivery_id == turn_id)
        async with self.app.state.database.read() as connection:
            return (await connection.execute(select(runs).where(of_turn).order_by(runs.c.id))).first()

    async def until(self, turn_id: str, accepts: Callable[[Any], bool]) -> Any:
        """Return the row of a run once it is as wanted."""
        async with asyncio.timeout(60):
            while (row := await self.run(turn_id)) is None or not accepts(row):
                # Rows of runs change mostly at the end of an attempt.
                attempts = set(self.dispatcher._running) or {asyncio.create_task(asyncio.sleep(0.005))}
                await asyncio.wait(attempts, timeout=0.05, return_when=asyncio.FIRST_COMPLETED)
        return row

    async def end(self, turn_id: str) -> str | None:
        """Return how a run ended, once it has."""
        row = await self.until(turn_id, lambda row: row.state in ENDED)
        return str(row.ended) if row.ended is not None else None

    async def ask(self, text: str, **given: Any) -> str | None:
        """Send a message and return how its run ended."""
        return await self.end(await self.send(text, **given))

    async def messages(self, thread: Thread | None = None) -> list[Message]:
        return await self.services.messages.read(thread or await self.main(), limit=1000)

    async def outputs(self, thread: Thread | None = None) -> list[tuple[str, str, str]]:
        """Return name, status and text of all outputs of tools."""
        found: list[tuple[str, str, str]] = []
        for message in await self.messages(thread):
            if message.kind == "tool_output":
                found += [(part.name, part.status, part.text) for part in message.parts]  # type: ignore[union-attr]
        return found

    async def events(self, thread: Thread | None = None) -> list[str]:
        """Return the names of the events in a thread."""
        return [
            part.name  # type: ignore[union-attr]
            for message in await self.messages(thread)
            if message.kind == "event"
            for part in message.parts
        ]

    async def block(self, label: str = "human", subject: str | None = None, user_id: str = OWNER) -> str:
        """Return the value of a block of core memory."""
        found = await self.services.blocks.ensure(BlockScope(user_id, "helper", subject), ())
        return next(each.value for each in found if each.label == label)


def program(model: ScriptedModel, more: str = "", models: str = "", chosen: str = "model scripted") -> str:
    return PROGRAM.format(models=f"{model.block}\n{models}", model=chosen, more=more)


@asynccontextmanager
async def acting(folder: Path, text: str, *, kept: bool = False) -> AsyncIterator[Acting]:
    """Run the agents of a program until the end of the block. `kept`: the program is loaded as by a daemon."""
    file = write_program(folder, text)
    settings, root = ProcessSettings.read({}), Root(folder)
    if settings.database is None and not root.state.exists():
        root.state.mkdir(0o700)
        write_atomically(root.state / master_key.FILE, KEY_BYTES.hex().encode())
        with_keys(root.state / DATABASE_FILE, KEY)
    async with App.open(root, settings) as app:
        await (app.start if kept else app.load)([file])
        agent = Acting(app)
        try:
            yield agent
        finally:
            await agent.dispatcher.stop(0)
            await agent.running

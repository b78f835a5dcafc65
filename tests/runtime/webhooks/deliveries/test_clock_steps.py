"""Through all steps of the clock and deletions, a request is accepted once, and a new one is not lost."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import NamedTuple

from hypothesis import example, given, settings
from hypothesis import strategies as st

from runtime.database.connection import Database
from runtime.webhooks.deliveries.retention import Retention
from runtime.webhooks.deliveries.storage_usage import StorageUsage
from runtime.webhooks.receiving.admission import Admission
from tests.clocks import ManualClock
from tests.conftest import KEY
from tests.databases import migrated
from tests.lanes import examples
from tests.runtime.webhooks.candidates import candidate

TOLERANCE = 300
DAY = 86_400


class Sent(NamedTuple):
    """Return a request that was signed at `at`, with its MAC."""

    mac: bytes
    at: float


class Advance(NamedTuple):
    seconds: float


class Step(NamedTuple):
    seconds: float


class Send(NamedTuple):
    """Send a new request, from a sender whose clock differs from ours."""

    difference: float


class Prune(NamedTuple):
    pass


class Restart(NamedTuple):
    pass


_seconds = st.sampled_from([1, 301, 3600, DAY + 301, 3 * DAY, 40 * DAY])
_actions = st.lists(
    st.one_of(
        st.builds(Advance, _seconds),
        st.builds(Step, _seconds | _seconds.map(lambda each: -each)),
        st.builds(Send, st.integers(-TOLERANCE, TOLERANCE)),
        st.just(Prune()),
        st.just(Restart()),
    ),
    min_size=3,
    max_size=25,
)


class Daemon:
    """Admission and retention. After every action, every fresh request sent so far is sent again."""

    def __init__(self, database: Database, clock: ManualClock) -> None:
        self.database = database
        self.clock = clock
        self.sent: list[Sent] = []
        self.set_back = 0.0

    async def start(self) -> None:
        usage = StorageUsage()
        self.retention = Retention(self.database, self.clock, usage, keep_seconds=30 * DAY)
        self.admission = Admission(self.database, self.clock, usage=usage)
        await self.retention.open()

    async def verdict(self, sent: Sent) -> str:
        return (await self.admission.admit(candidate(replay_key=sent.mac, replay_until=sent.at + TOLERANCE))).verdict

    async def act(self, action: Advance | Step | Send | Prune | Restart) -> None:
        match action:
            case Advance(seconds):
                self.clock.advance(seconds)
            case Step(seconds):
                self.set_back += max(0.0, -seconds)
                self.clock.step(seconds)
            case Send(difference):
                await self.send(difference)
            case Prune():
                await self.retention.prune()
            case Restart():
                await self.start()
        for sent in self.sent:
            if abs(sent.at - self.clock.now()) <= TOLERANCE:
                assert await self.verdict(sent) == "replayed"

    async def send(self, difference: float) -> None:
        sent = Sent(len(self.sent).to_bytes(4, "big"), self.clock.now() + difference)
        verdict = await self.verdict(sent)
        # If the clock was set back by more than a day past deleted keys, new requests cannot be recognized.
        assert verdict == "accepted" or self.set_back >= DAY
        self.sent.append(sent)


@settings(max_examples=examples(25), deadline=None)
@given(_actions)
@example([Send(0), Advance(3 * DAY), Prune(), Step(-3 * DAY), Restart()])
@example([Send(0), Step(40 * DAY), Prune(), Restart(), Prune(), Step(-40 * DAY), Send(0)])
def test_a_request_is_taken_once_and_a_new_one_is_not_lost(
    actions: list[Advance | Step | Send | Prune | Restart],
) -> None:
    asyncio.run(_play(actions))


async def _play(actions: list[Advance | Step | Send | Prune | Restart]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        database = await Database.open(migrated(Path(folder) / "symbiont.db"), KEY)
        try:
            daemon = Daemon(database, ManualClock())
            await daemon.start()
            for action in actions:
                await daemon.act(action)
        finally:
            await database.close()

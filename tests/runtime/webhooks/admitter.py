"""A process that admits deliveries until it is killed, printing each id once it is acknowledged: `admitter URL`."""

from __future__ import annotations

import asyncio
import sys

from runtime.clock import SYSTEM
from runtime.database.connection import Database
from runtime.webhooks.receiving.admission import Admission
from tests.conftest import KEY
from tests.runtime.webhooks.candidates import candidate


async def main(url: str) -> None:
    admission = Admission(await Database.open(url, KEY), SYSTEM)

    async def client(name: int) -> None:
        number = 0
        while True:
            decision = await admission.admit(candidate(f"{name}-{number}", body=b"x" * 5000))
            sys.stdout.write(decision.delivery_id + "\n")
            sys.stdout.flush()
            number += 1

    await asyncio.gather(*(client(name) for name in range(32)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from runtime.memory.records.store import RecordsStore
from tests.clocks import ManualClock


@pytest.fixture
async def store(tmp_path: Path, clock: ManualClock) -> AsyncIterator[RecordsStore]:
    """A records store in an empty folder, at 2026-02-14T10:30:00Z, without gates and without a remote."""
    opened = RecordsStore(tmp_path / "data" / "agents", clock)
    yield opened
    await opened.close()

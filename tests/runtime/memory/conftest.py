from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from runtime.memory.markdown.store import MarkdownStore
from runtime.memory.records.store import RecordsStore
from tests.clocks import ManualClock


@pytest.fixture
async def store(tmp_path: Path, clock: ManualClock) -> AsyncIterator[MarkdownStore]:
    """A markdown store in an empty folder, at 2026-02-14T10:30:00Z."""
    opened = MarkdownStore(tmp_path / "data" / "agents", clock)
    yield opened
    await opened.close()


@pytest.fixture
def folder(store: MarkdownStore | RecordsStore) -> Path:
    """Return the folder of the agent `reviewer`."""
    return store.root / "reviewer"

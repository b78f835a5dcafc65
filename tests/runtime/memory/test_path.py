"""Paths of memories: never in the root's own state, directly or by a link."""

from __future__ import annotations

from pathlib import Path

import pytest

from dslc.blocks.memory import Memory
from runtime.errors import UsageError
from runtime.memory import open_store


async def test_a_link_into_the_state_of_the_root_is_no_folder_for_memories(tmp_path: Path) -> None:
    (tmp_path / ".symbi" / "data").mkdir(parents=True)
    (tmp_path / "data").symlink_to(".symbi/data")
    for path in ("data", "data/agents", str(tmp_path / "data")):
        with pytest.raises(UsageError, match="is inside the root's own state"):
            await open_store(Memory(name="m", path=path), tmp_path)

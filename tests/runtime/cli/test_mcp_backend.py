"""What `symbi mcp` does when the process that owns the root ends in the middle of a call."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from runtime.cli.mcp_backend import FailoverBackend, RemoteBackend
from runtime.daemon.process.root import make
from runtime.mcp.admin_link import OwnerGone
from runtime.mcp.backend import BackendAnswer, BackendFailure


@pytest.mark.parametrize(
    ("query", "repeated"), [("SELECT a FROM t", True), ("INSERT INTO t VALUES (1)", False), (None, False)]
)
async def test_a_select_is_repeated_and_what_may_change_something_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str | None, repeated: bool
) -> None:
    asked: list[str] = []

    async def answer(_backend: RemoteBackend, name: str, _given: Mapping[str, Any], _progress: object) -> BackendAnswer:
        asked.append(name)
        if len(asked) == 1:
            raise OwnerGone(was_sent=True)
        return BackendAnswer("{}", {})

    async def not_taken(_backend: FailoverBackend) -> bool:
        return False

    monkeypatch.setattr(RemoteBackend, "call", answer)
    monkeypatch.setattr(FailoverBackend, "_current_owner", lambda _: RemoteBackend("", ""))
    monkeypatch.setattr(FailoverBackend, "_own_root", not_taken)
    backend = FailoverBackend(make(tmp_path, os.environ, tmp_path), (), lambda: None)
    call = backend.call("agent_memory_sql", {"query": query}, None)
    if repeated:
        assert (await call).content == {}
    else:
        with pytest.raises(BackendFailure, match="may have been done or not"):
            await call
    assert len(asked) == (2 if repeated else 1)

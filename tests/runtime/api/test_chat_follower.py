"""The patience of a question ends while its model is away, however often it is asked again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runtime.agents.loop.events import RunEvent
from runtime.api.admin.agents.chat import _Follower
from runtime.threads.inputs import InputState
from tests.clocks import ManualClock

AWAY = InputState("waiting", "model_unavailable", None, "503")
PATIENCE = 20


@pytest.mark.parametrize(("event", "over"), [("reply", True), ("text", False)])
async def test_only_what_the_model_says_shows_that_it_is_back(event: str, over: bool) -> None:
    clock, told = ManualClock(), list[Any]()
    context = SimpleNamespace(clock=clock, tell=told.append, shown=lambda state, error: (state, error))
    follower = _Follower(cast("Any", context), cast("Any", None), "run", PATIENCE, decides=False)

    async def events() -> AsyncIterator[RunEvent]:
        yield {"event": event, "run_id": "run"}

    assert not follower._is_over(AWAY)
    clock.advance(PATIENCE)
    await follower._pass_on(events())
    assert follower._is_over(AWAY) is over

"""An agent with which the tests of a module talk, each as users of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import count

import pytest
import pytest_asyncio

from tests.runtime.agents.loop.acting import program
from tests.runtime.agents.scripted import ScriptedModel
from tests.runtime.api.chat.talking import Talking, talking

_NUMBERS = count()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Talking]:
    with ScriptedModel() as model:
        async with talking(tmp_path_factory.mktemp("talking"), program(model), model) as talk:
            yield talk


@pytest_asyncio.fixture(loop_scope="module")
async def talk(shared: Talking) -> AsyncIterator[Talking]:
    """A client as users of this test alone; the replies of `talk.model` are those of the test."""
    talk = await shared.of_new_users(f"{next(_NUMBERS)}-")
    yield talk
    await talk.is_idle()

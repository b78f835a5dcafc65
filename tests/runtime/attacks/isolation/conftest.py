"""One daemon with two users for the whole matrix."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.runtime.agents.scripted import ScriptedModel, says
from tests.runtime.attacks.isolation.world import PROGRAM, World, make_world
from tests.runtime.daemon.running import running, write_program


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    root = tmp_path_factory.mktemp("isolated")
    with ScriptedModel(says("Hello.")) as model:
        write_program(root, PROGRAM.format(model=model.block))
        with running(root, "program") as daemon:
            yield make_world(daemon, model)

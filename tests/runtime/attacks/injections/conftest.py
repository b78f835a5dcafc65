"""One daemon for all payloads. Their runs are done together; each test looks at those of its payload."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from tests.runtime.agents.scripted import ScriptedModel
from tests.runtime.attacks.injections.obeying import RUN, ObeyingModel
from tests.runtime.attacks.injections.payloads import PAYLOADS, VECTORS, Payload
from tests.runtime.attacks.injections.victim import LISTED, MODEL_KEY, PROGRAM, Victim, make_victim
from tests.runtime.daemon.running import running, until, write_program

AT_A_TIME = 8


@dataclass
class Attacked:
    """What came of the payloads. `requests`: to the model. `messages`: of the thread of each payload."""

    victim: Victim
    model: ObeyingModel
    requests: list[dict[str, Any]]
    messages: Mapping[str, list[dict[str, Any]]]
    before: Mapping[str, Any]
    after: Mapping[str, Any]

    def requests_of(self, name: str) -> list[dict[str, Any]]:
        """Return the requests to the model in the run of a payload."""
        return [body for body in self.requests if self.model.name_of(body) == name]


def attack(victim: Victim, payload: Payload) -> None:
    VECTORS[payload.where](victim, payload.about(victim.known))


def ended(victim: Victim) -> bool:
    return all(run["ended"] is not None for run in victim.runs().values())


@pytest.fixture(scope="session")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    root, obeying = tmp_path_factory.mktemp("injected"), ObeyingModel()
    with ScriptedModel(obeying.reply) as model, ThreadPoolExecutor(AT_A_TIME) as pool:
        write_program(root, PROGRAM.format(url=model.url, tools=" ".join(sorted(LISTED))))
        with running(root, "program", MODEL_KEY=MODEL_KEY) as daemon:
            victim = make_victim(daemon)
            until(lambda: ended(victim), what="the runs of the other user")
            before = victim.foreign()
            list(pool.map(lambda payload: attack(victim, payload), PAYLOADS))
            until(lambda: len(victim.runs()) >= len(PAYLOADS) and ended(victim), what="the runs")
            threads = [victim.messages(run["thread"]) for run in victim.runs().values()]
            named = {found[1]: each for each in threads if each and (found := RUN.search(str(each[0])))}
            yield Attacked(victim, obeying, model.bodies, named, before, victim.foreign())

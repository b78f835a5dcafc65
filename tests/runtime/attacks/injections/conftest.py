"""One daemon for all payloads. Their runs are done together; each test looks at those of its payload."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.agents.scripted import ScriptedModel
from tests.runtime.attacks.injections.obeying import RUN, ObeyingModel
from tests.runtime.attacks.injections.payloads import PAYLOADS, VECTORS, Payload
from tests.runtime.attacks.injections.victim import LISTED, MODEL_KEY, PROGRAM, SERVER_TOKEN, Victim, make_victim
from tests.runtime.daemon.running import running, until, write_program

AT_A_TIME = 8
SERVER = Path(__file__).parent / "evil_server.py"


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


def serve(victim: Victim, file: Path) -> None:
    """Have the MCP server serve its payloads, and approve it."""
    about = [payload.about(victim.known) for payload in PAYLOADS]
    texts = {
        where: {each.name: each.marked for each in about if each.where == where} for where in ("mcp", "mcp_output")
    }
    file.write_text(json.dumps({"described": texts["mcp"], "outputs": texts["mcp_output"]}))
    approved = victim.daemon.symbi("mcp-server", "approve", "evil", "--yes")
    assert approved.returncode == 0, approved


def ended(victim: Victim) -> bool:
    return all(run["ended"] is not None or run["state"] == "awaiting" for run in victim.runs().values())


@pytest.fixture(scope="session")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    root, obeying = tmp_path_factory.mktemp("injected"), ObeyingModel()
    with ScriptedModel(obeying.reply) as model, ThreadPoolExecutor(AT_A_TIME) as pool:
        served = root / "payloads.json"
        written = {"python": sys.executable, "server": SERVER, "file": served, "tools": " ".join(sorted(LISTED))}
        write_program(root, PROGRAM.format(url=model.url, **written))
        with running(root, "program", MODEL_KEY=MODEL_KEY, SERVER_TOKEN=SERVER_TOKEN) as daemon:
            victim = make_victim(daemon)
            serve(victim, served)
            until(lambda: ended(victim), what="the runs of the other user")
            victim.alone = [payload.name for payload in PAYLOADS if payload.where == "task"]
            for name in victim.alone:
                victim.operate("user_add", name=name)
            before = victim.foreign()
            list(pool.map(lambda payload: attack(victim, payload), PAYLOADS))
            until(lambda: len(victim.runs()) >= len(PAYLOADS) and ended(victim), what="the runs")
            threads = [victim.messages(run) for run in victim.runs().values()]
            named = {found[1]: each for each in threads if each and (found := RUN.search(str(each[0])))}
            yield Attacked(victim, obeying, model.bodies, named, before, victim.foreign())

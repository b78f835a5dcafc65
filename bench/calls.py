"""`python -m bench.calls [--json] [--rounds N]`: Python calls of this project for one request of each kind.

A daemon (`symbi up`) runs in a process of its own that counts calls with `sys.setprofile` in all its threads: calls of
functions under `runtime/` and `dslc/`, the files they are in, and the packages. *Delivery*: from a signed webhook
until its item is indexed. *Chat*: `POST /v1/agent/chat`, from the request to the answer of a scripted model. *Search*:
`symbi collection search`. *Reload*: after a change of one number. All are warm, and the round with the fewest calls
counts: it has the least of the background's. Counts do not depend on the load of the machine.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench.harness import counted_calls
from bench.harness.counted_calls import ROOT
from bench.harness.report import command_line, show
from bench.harness.scripted_model import served
from tests.runtime.daemon.running import Daemon, running, until

ROUNDS: Final = 5
_HOTTEST: Final = 12
"""Files that JSON has of each kind."""
_INDEXED: Final = 1.0
"""Seconds after which an accepted delivery is in its memory and in the index."""
_PROGRAM: Final = """\
memory notes {{ path "notes" embedding hashing }}
memory pushed {{ store collection embedding hashing }}
{model}
agent reviewer {{ memory notes }}
agent helper {{ memory notes model scripted instruction "You help." max_steps {steps} }}
webhook github {{ path "/hooks/github" provider github secret "secret://env/GITHUB_SECRET" agent reviewer }}
"""
_BODY: Final = b'{"action": "opened", "number": 1, "issue": {"title": "Tea"}, "repository": {"full_name": "a/b"}}'


def _counted(switch: Path, act: Callable[[], object], rounds: int) -> Counter[tuple[str, str]]:
    """Return the daemon's calls by file and function in the round with the fewest, after one to warm up."""
    found, written = [], switch.with_suffix(".json")
    for _ in range(rounds + 1):
        time.sleep(1.5)
        switch.touch()
        time.sleep(0.05)
        act()
        switch.unlink()
        until(written.exists)
        found.append(Counter({(file, name): count for file, name, count in json.loads(written.read_bytes())}))
        written.unlink()
    return min(found[1:], key=Counter.total)


def measure(rounds: int = ROUNDS) -> dict[str, Any]:
    """Return the calls of each kind."""
    with tempfile.TemporaryDirectory() as folder, served(1) as model:
        root, switch = Path(folder) / "root", Path(folder) / "counts"
        root.mkdir()
        (root / "p.symbiont").write_text(_PROGRAM.format(model=model, steps=8))
        with running(
            root, command=[sys.executable, "-m", counted_calls.__name__], PYTHONPATH=ROOT, CALLS_SWITCH=str(switch)
        ) as daemon:
            made = daemon.symbi("token", "create", "--scope", "write", "--json")
            assert made.returncode == 0, made.stderr
            flows = _Flows(daemon, json.loads(made.stdout)["token"], model)
            return {name: _summary(_counted(switch, act, rounds)) for name, act in flows.by_name.items()}


class _Flows:
    def __init__(self, daemon: Daemon, token: str, model: str) -> None:
        self._daemon, self._model, self._steps = daemon, model, 8
        self._headers = [("Authorization", f"Bearer {token}"), ("Content-Type", "application/json")]
        self.by_name: dict[str, Callable[[], object]] = {
            "delivery": self._delivery,
            "chat": self._chat,
            "search": self._search,
            "reload": self._reload,
        }

    def _delivery(self) -> None:
        assert self._daemon.github(_BODY, os.urandom(16).hex(), event="issues").status == 202
        time.sleep(_INDEXED)

    def _chat(self) -> None:
        body = b'{"input": "What do you know about tea?", "wait": 60}'
        answer = self._daemon.request("POST", "/v1/agent/chat", body, self._headers, to="admin")
        assert answer.json()["ended"] == "answered", answer.body

    def _search(self) -> None:
        assert self._daemon.symbi("collection", "search", "tea").returncode == 0

    def _reload(self) -> None:
        self._steps = 17 - self._steps
        (self._daemon.root / "p.symbiont").write_text(_PROGRAM.format(model=self._model, steps=self._steps))
        before = self._reloads()
        until(lambda: self._reloads() > before, what="the reload")

    def _reloads(self) -> int:
        return self._daemon.log.read_bytes().count(b"program_loaded")


def _summary(calls: Counter[tuple[str, str]]) -> dict[str, Any]:
    files = Counter[str]()
    for (file, _), count in calls.items():
        files[file] += count
    packages = {"/".join(file.split("/")[:2]) for file in files}
    functions = [[f"{file}:{name}", count] for (file, name), count in calls.most_common(_HOTTEST)]
    return {
        "calls": calls.total(),
        "files": len(files),
        "packages": len(packages),
        "hottest_files": files.most_common(_HOTTEST),
        "hottest_functions": functions,
    }


def table(result: dict[str, Any]) -> str:
    """Return the measurement as a Markdown table."""
    lines = ["| request | calls | files | packages | most calls in |", "|---|---:|---:|---:|---|"]
    for name, each in result.items():
        hottest = ", ".join(f"`{file}`" for file, _ in each["hottest_files"][:3])
        lines.append(f"| {name} | {each['calls']:,} | {each['files']} | {each['packages']} | {hottest} |")
    return "\n".join(lines)


def main() -> None:
    options = command_line("calls", __doc__, rounds=(ROUNDS, "rounds of each kind")).parse_args()
    show(measure(options.rounds), table, as_json=options.json)


if __name__ == "__main__":
    main()

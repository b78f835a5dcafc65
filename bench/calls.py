"""`python -m bench.calls [--json] [--rounds N]`: what one request of each kind costs, in counts.

A daemon (`symbi up`) runs in a process of its own that counts calls with `sys.setprofile` in all its threads: calls of
functions under `runtime/` and `dslc/`, the files they are in, and the packages; and the transactions, statements and
rows of its database, and the files that it opens and flushes to disk. *Accept*: a signed webhook whose deliveries are
only stored. *Delivery*: one whose agent is a recorder, until its item is indexed. *Chat*:
`POST /v1/agents/{agent}/chat`, from the request to the answer of a scripted model; *step*: what one more step of the
agent adds, which calls a tool. *Search*: `symbi collection search`. *Reload*: after a change of one number. All are
warm, and the round with the fewest calls counts: it has the least of the background's. Counts do not depend on the load
of the machine; `tests/budget.toml` has the highest that are allowed.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.harness import counted_calls
from bench.harness.counted_calls import ROOT
from bench.harness.report import command_line, show
from bench.harness.scripted_model import served
from tests.runtime.daemon.running import Daemon, running, until

ROUNDS: Final = 5
_HOTTEST: Final = 12
"""Files that JSON has of each kind."""
COUNTS: Final = ("transactions", "statements", "rows read", "rows written", "flushes", "files opened")
"""What is counted besides calls."""
_INDEXED: Final = 1.0
"""Seconds after which an accepted delivery is in its memory and in the index."""
_PROGRAM: Final = """\
memory notes {{ path "notes" embedding hashing }}
memory pushed {{ store collection embedding hashing }}
{models}
agent reviewer {{ memory notes }}
agent helper {{ memory notes model scripted instruction "You help." max_steps {steps} }}
agent caller {{ memory notes model calling instruction "You help." max_steps {steps} }}
webhook github {{ path "/hooks/github" provider github secret "secret://env/GITHUB_SECRET" agent reviewer }}
webhook stored {{ path "/hooks/stored" provider github secret "secret://env/GITHUB_SECRET" }}
"""
_BODY: Final = b'{"action": "opened", "number": 1, "issue": {"title": "Tea"}, "repository": {"full_name": "a/b"}}'


class _Counted(NamedTuple):
    """`calls`: by file and function."""

    calls: Counter[tuple[str, str]]
    counts: Mapping[str, int]


def _count(switch: Path, act: Callable[[], object], rounds: int) -> _Counted:
    """Return what the daemon does in the round with the fewest calls, after one to warm up."""
    found, written = [], switch.with_suffix(".json")
    for _ in range(rounds + 1):
        time.sleep(1.5)
        switch.touch()
        time.sleep(0.05)
        act()
        switch.unlink()
        until(written.exists)
        result = json.loads(written.read_bytes())
        found.append(
            _Counted(Counter({(file, name): number for file, name, number in result["calls"]}), result["counts"])
        )
        written.unlink()
    return min(found[1:], key=lambda each: each.calls.total())


def measure(rounds: int = ROUNDS) -> dict[str, Any]:
    """Return the calls of each kind."""
    with tempfile.TemporaryDirectory() as folder, served(1) as one, served(2) as two:
        models = f"{one}\n{two.replace('scripted', 'calling')}"
        root, switch = Path(folder) / "root", Path(folder) / "counts"
        root.mkdir()
        (root / "p.symbiont").write_text(_PROGRAM.format(models=models, steps=8))
        with running(
            root, command=[sys.executable, "-m", counted_calls.__name__], PYTHONPATH=ROOT, CALLS_SWITCH=str(switch)
        ) as daemon:
            made = daemon.symbi("token", "create", "--scope", "write", "--json")
            assert made.returncode == 0, made.stderr
            flows = _Flows(daemon, json.loads(made.stdout)["token"], models)
            found = {name: _count(switch, act, rounds) for name, act in flows.by_name.items()}
    chat, longer = found["chat"], found["step"]
    more = {name: number - chat.counts.get(name, 0) for name, number in longer.counts.items()}
    found["step"] = _Counted(longer.calls - chat.calls, more)
    return {name: _summary(each) for name, each in found.items()}


class _Flows:
    def __init__(self, daemon: Daemon, token: str, models: str) -> None:
        self._daemon, self._models, self._steps = daemon, models, 8
        self._headers = [("Authorization", f"Bearer {token}"), ("Content-Type", "application/json")]
        self.by_name: dict[str, Callable[[], object]] = {
            "accept": lambda: self._deliver("/hooks/stored"),
            "delivery": lambda: self._deliver("/hooks/github"),
            "chat": lambda: self._chat("helper"),
            "step": lambda: self._chat("caller"),
            "search": self._search,
            "reload": self._reload,
        }

    def _deliver(self, path: str) -> None:
        assert self._daemon.github(_BODY, os.urandom(16).hex(), event="issues", path=path).status == 202
        time.sleep(_INDEXED)

    def _chat(self, agent: str) -> None:
        body = b'{"input": "What do you know about tea?", "wait": 60}'
        answer = self._daemon.request("POST", f"/v1/agents/{agent}/chat", body, self._headers, to="admin")
        assert answer.json().get("ended") == "answered", answer.body

    def _search(self) -> None:
        assert self._daemon.symbi("collection", "search", "tea").returncode == 0

    def _reload(self) -> None:
        self._steps = 17 - self._steps
        (self._daemon.root / "p.symbiont").write_text(_PROGRAM.format(models=self._models, steps=self._steps))
        before = self._reloads()
        until(lambda: self._reloads() > before, what="the reload")

    def _reloads(self) -> int:
        return self._daemon.log.read_bytes().count(b"program_loaded")


def _summary(counted: _Counted) -> dict[str, Any]:
    calls, files = counted.calls, Counter[str]()
    for (file, _), count in calls.items():
        files[file] += count
    packages = {"/".join(file.split("/")[:2]) for file in files}
    functions = [[f"{file}:{name}", count] for (file, name), count in calls.most_common(_HOTTEST)]
    return {
        "calls": calls.total(),
        **{name: counted.counts.get(name, 0) for name in COUNTS},
        "files": len(files),
        "packages": len(packages),
        "hottest_files": files.most_common(_HOTTEST),
        "hottest_functions": functions,
    }


def table(result: dict[str, Any]) -> str:
    """Return the measurement as a Markdown table."""
    names = ["calls", "files", "packages", *COUNTS]
    lines = [f"| request | {' | '.join(names)} | most calls in |", f"|---|{'---:|' * len(names)}---|"]
    for name, each in result.items():
        hottest = ", ".join(f"`{file}`" for file, _ in each["hottest_files"][:3])
        lines.append(f"| {name} | {' | '.join(f'{each[one]:,}' for one in names)} | {hottest} |")
    return "\n".join(lines)


def main() -> None:
    options = command_line("calls", __doc__, rounds=(ROUNDS, "rounds of each kind")).parse_args()
    show(measure(options.rounds), table, as_json=options.json)


if __name__ == "__main__":
    main()

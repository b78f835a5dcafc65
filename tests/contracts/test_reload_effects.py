"""`dslc diff` predicts exactly what a running daemon does in a reload."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from dslc.catalog import Catalog
from dslc.comparison.difference import difference
from dslc.compiler import analyse
from dslc.program import Program
from dslc.source import Source
from dslc.vocabulary import Vocabulary
from tests.lanes import LONG
from tests.runtime.daemon.running import Daemon, running, until, write_program

_SECRET = 'secret "secret://env/GITHUB_SECRET"'


def _webhook(name: str, settings: str, path: str = "") -> str:
    return f'webhook {name} {{ path "/hooks/{path or name}" provider github {settings} }}\n'


_OLD = (
    'memory notes { path "data/notes" }\n'
    "memory other {}\n"
    "agent one { memory notes }\nagent two { memory notes }\nagent off { memory notes }\n"
    + _webhook("stays", f"{_SECRET} agent one")
    + _webhook("moves", f"{_SECRET} agent one")
    + _webhook("goes", f"{_SECRET} agent one")
    + _webhook("taken", f"{_SECRET} agent one")
    + _webhook("changes", f"{_SECRET} agent one")
    + _webhook("opens", f"{_SECRET} agent one")
    + _webhook("waits", f"{_SECRET} agent off")
)
_NEW = (
    'memory notes { path "data/elsewhere" }\n'
    "memory other {}\n"
    "agent one { memory notes }\nagent two { memory notes }\nagent off { memory notes enabled false }\n"
    + _webhook("stays", f"{_SECRET} agent one")
    + _webhook("moves", f"{_SECRET} agent one", "moved")
    + _webhook("heir", f"{_SECRET} agent two", "taken")
    + _webhook("changes", f"{_SECRET} agent two")
    + _webhook("opens", "insecure_allow_unverified true agent one")
    + _webhook("waits", f"{_SECRET} agent off")
    + _webhook("lacks", 'secret "secret://env/NOT_SET" agent one')
)


def _program(text: str) -> Program:
    return analyse([Source("hooks.symbiont", text)], Catalog.installed()).program


def _effects() -> set[tuple[str, str]]:
    """Return the predictions of `dslc diff`, each with the name of its block."""
    found = difference(_program(_OLD), _program(_NEW), Vocabulary(Catalog.installed()))
    entries = (*found.added, *found.changed, *found.removed)
    return {(entry.name, effect) for entry in entries for effect in entry.effects} | {("", e) for e in found.effects}


def _deliveries(root: Path) -> list[tuple[str, str | None, str]]:
    """Return webhook, agent and state of every delivery."""
    with closing(sqlite3.connect(root / ".symbi/symbiont.db", timeout=10)) as database:
        return list(database.execute("SELECT webhook, agent, state FROM deliveries ORDER BY received_at, id"))


def _deliver(daemon: Daemon, path: str) -> tuple[str, str | None, str]:
    """Return webhook, agent and last state of a new delivery to a path."""
    count = len(_deliveries(daemon.root))
    assert daemon.github(b'{"n":1}', f"{path}-{count}", path=path).status == 202
    until(lambda: _deliveries(daemon.root)[count:] and _deliveries(daemon.root)[-1][2] not in {"queued", "running"})
    return _deliveries(daemon.root)[-1]


def _status(daemon: Daemon, path: str) -> int:
    return daemon.request("GET", path).status


def _holds(daemon: Daemon, name: str, *given: str) -> bool:
    """Return whether a delivery to the block's path reaches this webhook, agent and state; "" for any."""
    return all(want in {"", have} for want, have in zip(given, _deliver(daemon, f"/hooks/{name}"), strict=True))


def _unsigned(daemon: Daemon, name: str) -> bool:
    headers = [("X-GitHub-Event", "push"), ("X-GitHub-Delivery", "unsigned")]
    return daemon.request("POST", f"/hooks/{name}", b"{}", headers).status == 202


def _files(daemon: Daemon, folder: str) -> int:
    return sum(path.is_file() for path in (daemon.root / folder).rglob("*"))


_CHECKS: dict[str, Callable[..., bool]] = {
    r"`(\S+)` answers 404": lambda daemon, _, path: _status(daemon, path) == 404,
    r"`(\S+)` is mounted": lambda daemon, _, path: _status(daemon, path) == 405,
    r"`/hooks/(\S+)` is answered by the webhook `(\S+)`": lambda daemon, _, path, heir: _holds(
        daemon, path, heir, "", ""
    ),
    r"mounted only if `secret://env/NOT_SET` resolves": lambda daemon, name: _status(daemon, f"/hooks/{name}") == 404,
    r"unsigned requests are accepted": _unsigned,
    r"new deliveries go to `(\S+)`; waiting deliveries stay with `\S+`": lambda daemon, name, agent: _holds(
        daemon, name, name, agent, ""
    ),
    r"deliveries for it are stored as agent_gone and can be redelivered": lambda daemon, name: _holds(
        daemon, "waits", "waits", name, "agent_gone"
    ),
    r"opens the store at `(\S+)`": lambda daemon, _, folder: (
        _holds(daemon, "stays", "stays", "one", "done") and _files(daemon, folder) > 0
    ),
    r"the data of the markdown store at `(\S+)` stays there": lambda daemon, _, folder: _files(daemon, folder) > 0,
}
"""Return a check that the predicted effect has happened, given the names in its text."""


@LONG
def test_a_reload_does_what_was_said_of_it(tmp_path: Path) -> None:
    write_program(tmp_path, _OLD)
    effects, seen = _effects(), set()
    with running(tmp_path, "program") as daemon:
        for name in ("stays", "moves", "goes", "taken", "changes", "opens", "waits"):
            assert _holds(daemon, name, name, "", "done")
        assert _status(daemon, "/hooks/lacks") == 404
        assert not _unsigned(daemon, "opens")
        daemon.load(_NEW)
        for name, effect in sorted(effects):
            pattern = next(pattern for pattern in _CHECKS if re.fullmatch(pattern, effect))
            match = re.fullmatch(pattern, effect)
            assert match is not None
            assert _CHECKS[pattern](daemon, name, *match.groups()), (name, effect)
            seen.add(pattern)
        assert _holds(daemon, "stays", "stays", "one", "done")
    assert seen == _CHECKS.keys()

"""What happens in the middle of a story: nothing, a reload, a full disk, or a database that cannot be reached."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, Literal

import pytest

from tests.lanes import LONG
from tests.runtime.daemon.proxy import Proxy, proxied
from tests.runtime.daemon.running import Daemon, on_postgres, running, until, write_program

Kind = Literal["calm", "reload", "full disk", "lost database"]
DISTURBED = pytest.mark.parametrize(
    "world",
    ["calm", "reload", pytest.param("full disk", marks=LONG), pytest.param("lost database", marks=LONG)],
    indirect=True,
)
"""The test runs once with each kind; `make test` leaves the two slowest to `make test-long`."""

EXTRA = 'webhook extra { path "/hooks/extra" provider github secret "secret://env/GITHUB_SECRET" }\n'
Step = Callable[[], CompletedProcess[str]]


class World:
    """A folder for roots, a database, and one disturbance for both."""

    def __init__(self, kind: Kind, folder: Path, given: dict[str, str], proxy: Proxy | None) -> None:
        self.kind = kind
        self.folder = folder
        self.given = given
        self._proxy = proxy
        self._programs: dict[Path, str] = {}
        self._daemons: list[Daemon] = []

    @contextmanager
    def daemon(self, program: str, name: str = "root") -> Iterator[Daemon]:
        """Start a daemon with this program in its own root."""
        root = self.folder / name
        root.mkdir(exist_ok=True)
        write_program(root, program)
        self._programs[root] = program
        with running(root, "program", wait=True, **self.given) as daemon:
            self._daemons.append(daemon)
            yield daemon
            self._daemons.remove(daemon)

    def run(self, daemon: Daemon, *arguments: str, stdin: str | None = None) -> CompletedProcess[str]:
        return daemon.symbi(*arguments, input=stdin, **self.given)

    def json(self, daemon: Daemon, *arguments: str, stdin: str | None = None) -> Any:
        """Return the JSON output of a command that must succeed."""
        done = self.run(daemon, *arguments, "--json", stdin=stdin)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    def disturbed(self, step: Step) -> CompletedProcess[str]:
        """Do `step` during the disturbance, and again after it until it succeeds.

        A failed step must have printed one clear line, and a repeated one must not have a second effect."""
        with self._disturbance():
            done = step()
        assert "Traceback" not in done.stdout + done.stderr
        if self.kind in {"calm", "reload"}:
            assert done.returncode == 0, done.stderr
        elif self.kind == "lost database":
            assert done.returncode != 0
        assert done.returncode == 0 or done.stderr.strip()
        if self.kind == "calm":
            return done

        def again() -> CompletedProcess[str] | None:
            repeated = step()
            return repeated if repeated.returncode == 0 else None

        repeated: CompletedProcess[str] = until(again, what="the step after the disturbance")
        for daemon in self._daemons:
            daemon.wait_until_ready()
            assert "Traceback" not in daemon.log.read_text()
        return repeated

    @contextmanager
    def _disturbance(self) -> Iterator[None]:
        if self.kind == "reload":
            with self._reloading():
                yield
        elif self.kind == "full disk":
            with full(self.folder):
                yield
        elif self.kind == "lost database":
            assert self._proxy is not None
            self._proxy.cut()
            yield
            self._proxy.reconnect()
        else:
            yield

    @contextmanager
    def _reloading(self) -> Iterator[None]:
        """Change the program immediately before and immediately after."""
        with self._loading(EXTRA):
            yield
        with self._loading(""):
            pass

    @contextmanager
    def _loading(self, extra: str) -> Iterator[None]:
        """Add `extra` to each program, and wait at the end until they are loaded."""
        with ExitStack() as stack:
            for daemon in self._daemons:
                stack.enter_context(daemon.reloading())
                write_program(daemon.root, self._programs[daemon.root] + extra)
            yield


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """A world with the disturbance that `DISTURBED` names. The lost database is a PostgreSQL behind a proxy."""
    kind: Kind = request.param
    with ExitStack() as stack:
        folder, given, proxy = tmp_path, {}, None
        if kind == "full disk":
            folder = stack.enter_context(small_disk(tmp_path / "disk"))
        if kind == "lost database":
            proxy = stack.enter_context(proxied(str(request.getfixturevalue("postgres_url"))))
            given = on_postgres(proxy.url)
        yield World(kind, folder, given, proxy)


@contextmanager
def full(folder: Path) -> Iterator[None]:
    """Fill the file system of a folder."""
    filler = folder / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as handle:
        while handle.write(b"x" * 4096):
            pass
    yield
    filler.unlink()


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Mount a file system of 16 MiB. Skip the test if mounting is not allowed."""
    folder.mkdir()
    command: list[str | Path] = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", folder]
    mounted = subprocess.run(command, capture_output=True, check=False)
    if os.geteuid() != 0 or mounted.returncode != 0:
        pytest.skip("mounting a small disk needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)

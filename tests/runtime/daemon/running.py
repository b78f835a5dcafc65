"""Run a real daemon in its own process, and real commands beside it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from tests.conftest import KEY_BYTES
from tests.runtime.daemon import forked
from tests.runtime.daemon.forked import Forked
from tests.signatures import sign

BIN = Path(sys.executable).parent
START_SECONDS = 120
SECRET = "It's a Secret to Everybody"

GITHUB = """\
webhook "github-events" {
    path     "/hooks/github"
    provider github
    secret   "secret://env/GITHUB_SECRET"
    agent    reviewer
}
agent reviewer {
    instruction "Remember."
}
"""
SECOND = """\
webhook second {
    path     "/hooks/second"
    provider github
    secret   "secret://env/GITHUB_SECRET"
    agent    reviewer
}
"""


def environment(**extra: str) -> dict[str, str]:
    """Return the tests' environment without variables that name another root, database or service manager."""
    foreign = ("SYMBIONT_", "VAULT_", "EMBEDDING_", "SUMMARIZATION_", "OLLAMA_", "OPENAI_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    for name in ("NOTIFY_SOCKET", "STATE_DIRECTORY", "RUNTIME_DIRECTORY", "CREDENTIALS_DIRECTORY"):
        kept.pop(name, None)
    own = {
        # Requests of tests are refused far more often than those of any sender.
        "SYMBIONT_ADDRESS_PER_MINUTE": "0",
        # Loading the included model takes longer than everything else that a daemon does in most tests.
        "EMBEDDING_PROVIDER": "hashing",
        "GITHUB_SECRET": SECRET,
        "NO_COLOR": "1",
    }
    return {**kept, **own, **extra}


def on_postgres(url: str, **extra: str) -> dict[str, str]:
    """Return the environment variables of a daemon whose database is at `url`."""
    key = {"SYMBIONT_MASTER_KEY": "secret://env/MASTER", "MASTER": KEY_BYTES.hex()}
    return {**key, "SYMBIONT_DATABASE": url, **extra}


def symbi(*arguments: str, root: Path, input: str | None = None, **extra: str) -> subprocess.CompletedProcess[str]:  # noqa: A002
    """Run `symbi` in `root` and wait for its end."""
    return forked.run(arguments, cwd=root, env=environment(**extra), input=input)


def until(condition: Callable[[], Any], seconds: float = 60, what: str = "the condition", *, pause: float = 0.5) -> Any:
    """Return the first true value of `condition`; fail if it stays false for `seconds`.

    It is asked again after 20 ms, and after a fifth of the time that it has been false for, at most `pause` seconds:
    many conditions start a command.
    """
    begin = time.monotonic()
    while True:
        value = condition()
        if value:
            return value
        waited = time.monotonic() - begin
        assert waited < seconds, f"{what} did not come true in {seconds} s"
        time.sleep(max(0.02, min(waited / 5, pause)))


@dataclass
class Answer:
    """A response of the daemon."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Daemon:
    """A running `symbi up` on `root`."""

    root: Path
    process: subprocess.Popen[bytes] | Forked
    log: Path
    addresses: dict[str, Any] = field(default_factory=dict)

    def wait_until_ready(self) -> None:
        def ready() -> bool:
            if self.process.poll() is not None:
                raise AssertionError(f"the daemon ended with {self.process.returncode}:\n{self.log.read_text()}")
            try:
                self.addresses = json.loads((self.root / ".symbi/daemon.json").read_bytes())
            except (OSError, ValueError):
                return False
            # A daemon that was killed leaves its file behind.
            return bool(self.addresses["pid"] == self.process.pid) and self.readyz().status == 200

        until(ready, START_SECONDS, "the daemon's start")

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: list[tuple[str, str]] | None = None,
        *,
        to: str = "public",
    ) -> Answer:
        host, _, port = str(self.addresses[to]).rpartition(":")
        connection = HTTPConnection(host, int(port), timeout=60)
        try:
            connection.putrequest(method, path, skip_accept_encoding=True)
            for name, value in headers or []:
                connection.putheader(name, value.encode("utf-8"))
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def readyz(self) -> Answer:
        """Return the readiness from the admin socket, which needs no token."""
        connection = HTTPConnection("localhost", timeout=60)
        try:
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.settimeout(60)
            connection.sock.connect(str(self.addresses["socket"]))
            connection.request("GET", "/readyz")
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        except (OSError, HTTPException):
            return Answer(0, {}, b"{}")
        finally:
            connection.close()

    def github(self, body: bytes, delivery_id: str, *, event: str = "push", path: str = "/hooks/github") -> Answer:
        """Post `body` as GitHub does."""
        headers = sign("github", SECRET, body, now=time.time(), delivery_id=delivery_id, event=event)
        return self.request("POST", path, body, headers)

    def symbi(
        self,
        *arguments: str,
        input: str | None = None,  # noqa: A002
        **extra: str,
    ) -> subprocess.CompletedProcess[str]:
        return symbi(*arguments, root=self.root, input=input, **extra)

    def attempts(self, *arguments: str) -> list[dict[str, Any]]:
        """Return the attempts that `symbi webhook logs --json` lists."""
        done = self.symbi("webhook", "logs", "--json", *arguments)
        assert done.returncode == 0, done.stderr
        rows = json.loads(done.stdout)["attempts"]
        assert isinstance(rows, list)
        return rows

    @contextmanager
    def reloading(self) -> Iterator[None]:
        """Wait at the end until the program that was changed inside has been loaded."""
        before = self._loaded
        yield
        until(lambda: self._loaded > before, what="the reload")

    def load(self, text: str, name: str = "hooks.symbiont") -> None:
        """Write a program that differs from the running one, see `write_program`, and wait until it is loaded."""
        with self.reloading():
            write_program(self.root, text, name)

    def hang_up(self) -> None:
        """Send SIGHUP and wait for the reload."""
        with self.reloading():
            self.process.send_signal(signal.SIGHUP)

    @property
    def _loaded(self) -> float:
        """The number of programs that were loaded."""
        metrics = self.request("GET", "/metrics", to="admin").body.decode()
        _, _, rest = metrics.partition('symbiont_reloads_total{result="loaded"} ')
        return float(rest.partition("\n")[0])

    def until_logged(self, text: str, count: int = 1) -> None:
        """Wait until the log has `text` `count` times: a thread of the daemon writes it."""
        until(lambda: self.log.read_text().count(text) >= count, what=f"{text!r} in the log")

    def entries(self, event: str = "") -> list[dict[str, Any]]:
        """Return the JSON entries of the log; `event`: those of this event."""
        # The last line may be half written.
        lines = self.log.read_text().rpartition("\n")[0].splitlines()
        entries = [json.loads(line) for line in lines if line.startswith("{")]
        return [entry for entry in entries if event in ("", entry["event"])]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(60)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@contextmanager
def running(
    root: Path,
    *arguments: str,
    wait: bool = True,
    command: Sequence[str | Path] | str = forked.SYMBI,
    admin_host: str = "127.0.0.1",
    **extra: str,
) -> Iterator[Daemon]:
    """Start `symbi up` in `root` on free ports; stop it at the end, with status 0 unless it was killed.

    `command`: another command than `symbi`, by its path and first arguments, or in the form of `forked`.
    """
    log = root / "daemon.log"
    given = ["up", *arguments, "--listen", "127.0.0.1:0", "--admin-listen", f"{admin_host}:0"]
    env = environment(**extra)
    process: subprocess.Popen[bytes] | Forked
    with log.open("ab") as output:
        if isinstance(command, str):
            process = forked.start(given, cwd=root, env=env, main=command, stdout=output, stderr=output)
        else:
            process = subprocess.Popen(
                [*command, *given], cwd=root, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
    daemon = Daemon(root, process, log)
    try:
        if wait:
            daemon.wait_until_ready()
        yield daemon
        if process.poll() is None:
            assert daemon.stop() == 0, log.read_text()
    finally:
        if process.poll() is None:
            daemon.kill()


def contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Yield the files below a folder of a running daemon with their contents, without those that end meanwhile."""
    for file in folder.rglob("*"):
        with suppress(FileNotFoundError):
            if file.is_file():
                yield file, file.read_bytes()


def write_program(root: Path, text: str = GITHUB, name: str = "hooks.symbiont") -> Path:
    """Write a program to `root/program` at once and return its file: no reload meets it half written."""
    file = root / "program" / name
    file.parent.mkdir(exist_ok=True)
    new = file.with_name(f".{file.name}.new")
    new.write_text(text)
    return new.replace(file)

"""Marked secrets of every backend, from a daemon's start to its end: no log, response, message or file in the root
contains one."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.lanes import first_of
from tests.runtime.daemon import forked
from tests.runtime.daemon.running import Daemon, contents, environment, running, symbi, until
from tests.runtime.secrets.vault_server import Answer, scripted
from tests.signatures import sign

PROGRAM = """\
webhook env {{ path "/env" provider github secret ["secret://env/MISSING", "secret://env/MARKED"] }}
webhook file {{ path "/file" provider stripe secret "file://key" }}
webhook credential {{ path "/credential" provider slack secret "secret://credential/hook" }}
webhook generated {{ path "/generated" provider github secret "secret://generated/hook" }}
webhook vault {{ path "/vault" provider github secret "vault://hooks/one#value" }}
webhook keyring {{ path "/keyring" provider github secret "secret://keyring/symbiont/github" }}
webhook literal {{ path "/literal" provider github secret "{literal}" }}
webhook shown {{ path "/shown" provider gitlab secret "secret://env/TOKEN" }}
webhook option {{ path "/option" provider meta {{ verify_token "secret://env/OPTION" }} secret "secret://env/MARKED" }}
webhook wrong {{ path "/wrong" provider standard-webhooks secret "secret://env/NO_KEY" }}
"""
SENDERS = {
    **dict.fromkeys(("env", "generated", "vault", "keyring", "literal"), "github"),
    "file": "stripe",
    "credential": "slack",
    "shown": "gitlab",
    "option": "meta",
}


class Marks:
    """Secrets that are recognized in any data, in clear or encoded."""

    def __init__(self) -> None:
        self.by_name: dict[str, str] = {}

    def new(self, name: str) -> str:
        return self.add(name, f"mark-{name}-{os.urandom(9).hex()}")

    def add(self, name: str, value: str) -> str:
        self.by_name[name] = value
        return value

    def found(self, data: bytes) -> set[str]:
        """Return the names of the secrets that `data` contains."""
        return {name for name, value in self.by_name.items() if any(form in data for form in _forms(value.encode()))}


def _forms(value: bytes) -> Iterator[bytes]:
    yield value
    yield value.hex().encode()
    yield quote(value, safe="").encode()
    for before in range(3):
        # In base64 of something longer: the part that does not depend on the bytes around it.
        text = base64.b64encode(b"\0" * before + value)
        yield text[4 if before else 0 : -4]


class Machine:
    """The places of the secrets outside the root, and a Vault that can be taken away."""

    def __init__(self, folder: Path, marks: Marks) -> None:
        self.marks = marks
        self.root = folder / "root"
        self.credentials, self.home = folder / "credentials", folder / "home"
        for made in (self.root, self.credentials, self.home, self.root / "program"):
            made.mkdir()
        self.key = self.root / "key"
        self.key.write_text(marks.new("file"))
        (self.credentials / "hook").write_text(marks.new("credential"))
        self.vault: Answer | None = (200, {"data": {"value": marks.new("vault")}})
        self.token = marks.new("vault-token")
        self.environ = {
            "MARKED": marks.new("env"),
            "TOKEN": marks.new("shown"),
            "OPTION": marks.new("option"),
            "NO_KEY": f"whsec_{marks.new('no-key')}!",
            "CREDENTIALS_DIRECTORY": str(self.credentials),
            "VAULT_TOKEN": self.token,
            "SYMBIONT_VAULT_KV": "1",
            "PYTHON_KEYRING_BACKEND": "keyrings.alt.file.PlaintextKeyring",
            "XDG_DATA_HOME": str(self.home),
            "SYMBIONT_MASTER_KEY": "secret://env/MASTER",
            "MASTER": marks.add("master", os.urandom(32).hex()),
        }
        setting = "import keyring, sys; keyring.set_password('symbiont', 'github', sys.argv[1])"
        subprocess.run(
            [sys.executable, "-c", setting, marks.new("keyring")], env=environment(**self.environ), check=True
        )
        self.write(PROGRAM.format(literal=marks.new("literal")))

    def write(self, text: str) -> None:
        (self.root / "program" / "hooks.symbiont").write_text(text)

    def answer(self, method: str, path: str, headers: dict[str, str], body: object) -> Answer:
        """Return the Vault's response; after `take_away` an error that repeats our secrets."""
        if self.vault is None:
            return 503, {"errors": [f"Vault is away\n{headers.get('x-vault-token')}"]}
        if headers.get("x-vault-token") != self.token:
            return 403, {"errors": ["permission denied"]}
        if path.endswith("lookup-self"):
            return 200, {"data": {"ttl": 0, "renewable": False}}
        return self.vault

    def take_away(self) -> None:
        """Make every backend fail."""
        self.vault = None
        self.key.unlink()
        (self.credentials / "hook").unlink()
        for file in self.home.rglob("*.cfg"):
            file.unlink()

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Return the content of the root, without the program and the key file that the test put there."""
        for file, content in contents(self.root):
            if file != self.key and file.parent.name != "program":
                yield str(file.relative_to(self.root)), content


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path, Marks())
    with scripted(made.answer) as address:
        made.environ["VAULT_ADDR"] = address
        yield made


class Told:
    """Everything that was written, by its source."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.said: list[tuple[str, bytes]] = []

    def run(self, *arguments: str) -> str:
        done = symbi(*arguments, root=self._machine.root, **self._machine.environ)
        self.said.append((f"symbi {' '.join(arguments)}", (done.stdout + done.stderr).encode()))
        return done.stdout

    def dslc(self, *arguments: str) -> None:
        done = forked.run(arguments, cwd=self._machine.root, env=environment(), main=forked.DSLC)
        assert "Traceback" not in done.stderr
        self.said.append((f"dslc {' '.join(arguments)}", (done.stdout + done.stderr).encode()))

    def ask(
        self, daemon: Daemon, method: str, path: str, body: bytes | None, headers: Any = (), to: str = "public"
    ) -> int:
        answer = daemon.request(method, path, body, list(headers), to=to)
        self.said.append((f"{method} {path}", repr(answer).encode()))
        return answer.status

    def leaks(self) -> list[tuple[str, set[str]]]:
        found = [(who, self._machine.marks.found(data)) for who, data in [*self.said, *self._machine.files()]]
        return [(who, names) for who, names in found if names]


def deliver(told: Told, machine: Machine, daemon: Daemon) -> list[str]:
    """Send a valid and an invalid delivery to each webhook; return the webhooks that accepted the valid one."""
    names = {"shown": "shown", "option": "env"}
    taken = []
    for name, provider in SENDERS.items():
        secret, body = machine.marks.by_name[names.get(name, name)], json.dumps({"n": os.urandom(6).hex()}).encode()
        for key in (secret, "another-secret"):
            headers = sign(provider, key, body, now=time.time(), delivery_id=os.urandom(6).hex(), event=None)
            if told.ask(daemon, "POST", f"/{name}", body, headers) in {200, 202}:
                taken.append(name)
    query = f"hub.mode=subscribe&hub.challenge=1&hub.verify_token={machine.marks.by_name['option']}"
    assert told.ask(daemon, "GET", f"/option?{query}", None) == 200
    told.said[-1] = ("the handshake", told.said[-1][1].replace(query.encode(), b""))
    return taken


@first_of("log_format", ["json", "text"])
def test_no_secret_is_shown_or_kept_in_clear_whatever_goes_wrong(machine: Machine, log_format: str) -> None:
    marks, told = machine.marks, Told(machine)
    with running(machine.root, "program", "--log-format", log_format, wait=True, **machine.environ) as daemon:
        shown = daemon.symbi("secret", "show", "hook", **machine.environ)
        marks.add("generated", shown.stdout.strip())
        assert sorted(deliver(told, machine, daemon)) == sorted(SENDERS)
        assert daemon.readyz().json()["not_mounted"][0]["webhook"] == "wrong"
        told.run("webhook", "rotate", "generated", "--overlap", "1h")
        marks.add("rotated", daemon.symbi("secret", "show", "hook", **machine.environ).stdout.strip())
        for name in ("env", "file", "credential", "vault", "keyring", "literal", "wrong", "nobody"):
            told.run("webhook", "rotate", name)
        for name in ("env", "shown", "wrong"):
            told.run("webhook", "test", name, "--payload", "{}")
        machine.take_away()
        daemon.hang_up()
        assert len(daemon.readyz().json()["warnings"]) >= 5
        assert "rotated" not in deliver(told, machine, daemon)
        machine.write(f'webhook literal {{ path "/literal" secret "{marks.by_name["literal"]}')
        until(lambda: daemon.readyz().json()["last_error"])
        everything(told, daemon, machine)
        with daemon.reloading():
            machine.write(PROGRAM.format(literal=marks.new("literal-too")))
        assert daemon.readyz().json()["last_error"] is None
        everything(told, daemon, machine)
        daemon.kill()
    with running(machine.root, "program", "--log-format", log_format, wait=True, **machine.environ) as daemon:
        gone = {row["webhook"]: row["reason"] for row in daemon.readyz().json()["not_mounted"]}
        assert set(gone) == {"credential", "file", "keyring", "vault", "wrong"}
        everything(told, daemon, machine)
    told.run("webhook", "list")
    assert told.leaks() == []


def everything(told: Told, daemon: Daemon, machine: Machine) -> None:
    """Call everything that can be called, except commands that show a secret."""
    told.ask(daemon, "GET", "/readyz", None, to="admin")
    told.ask(daemon, "GET", "/v1/webhooks", None, [("Authorization", "Bearer nobody")], to="admin")
    told.run("webhook", "list")
    told.run("webhook", "list", "--json")
    told.run("webhook", "logs", "--limit", "200", "--json")
    rows = json.loads(told.run("webhook", "deliveries", "--json"))["deliveries"]
    # Its sender sends the secret itself.
    told.run("webhook", "show", next(row["id"] for row in rows if row["webhook"] == "shown"))
    told.run("secret", "show", "hok")
    told.dslc("check", "program")
    told.dslc("check", "--format", "json", "program")
    told.dslc("compile", "program")
    told.dslc("fmt", "--check", "program")


def test_the_marks_would_be_found() -> None:
    marks = Marks()
    value = marks.new("x").encode()
    for shown in (value, base64.b64encode(b"ab" + value + b"c"), base64.b64encode(b"k=" + value), value.hex().encode()):
        assert marks.found(b"before " + shown + b" after") == {"x"}
    assert marks.found(b"mark-x-nothing") == set()

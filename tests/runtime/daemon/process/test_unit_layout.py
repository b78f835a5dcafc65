"""The shipped unit, installed as its header describes: it starts as the user of a service, and root's commands work
beside it without leaving files that root owns."""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.lanes import LONG
from tests.runtime.daemon.running import BIN, environment, until

UNIT = Path(__file__).parents[4] / "deploy/symbiont.service"
EXAMPLES = Path(__file__).parents[4] / "examples"
NOBODY = 65534

BASE = Path(sys.base_prefix)
CLOSED = next((each for each in (*reversed(BASE.parents), BASE) if not each.stat().st_mode & 0o005), None)
"""Return the folder, such as root's home, that keeps other users from the interpreter of the tests."""

OPENED = """
mount --bind "$1" /mnt
mount -t tmpfs -o mode=755 tmpfs "$2"
(umask 022; mkdir -p "$1")
mount --bind /mnt "$1"
shift 2
exec "$@"
"""
READABLE = () if CLOSED is None else ("unshare", "--mount", "sh", "-ec", OPENED, "sh", str(BASE), str(CLOSED))
"""Return the beginning of a command line that runs a command where every user may read that interpreter."""

AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or subprocess.run([*READABLE, *AS_NOBODY, sys.executable, "-c", ""], check=False).returncode != 0,
    reason="becoming another user needs root",
)


class Machine:
    """A folder in place of `/`, prepared by the commands in the unit's header."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.unit = UNIT.read_text()
        self.state = folder / "var/lib/symbiont"
        (folder / "etc").mkdir()
        for line in re.findall(r"^#   ((?:install -d|\(umask).*)$", self.unit, re.MULTILINE):
            subprocess.run(["sh", "-ec", self.here(line)], check=True)
        for example in EXAMPLES.glob("*.symbiont"):
            shutil.copy(example, folder / "etc/symbiont/programs")
        # Made by the service manager: StateDirectory=, RuntimeDirectory=, LoadCredential=.
        self.runtime, self.credentials = folder / "run/symbiont", folder / "run/credentials"
        for made in (self.state, self.runtime, self.credentials):
            made.mkdir(parents=True, mode=0o700)
        for name, source in re.findall(r"^LoadCredential=(.+?):(.+)$", self.unit, re.MULTILINE):
            shutil.copy(self.here(source), self.credentials / name)
        for made in (self.state, self.runtime, self.credentials, *self.credentials.iterdir()):
            os.chown(made, NOBODY, NOBODY)

    def here(self, text: str) -> str:
        return text.replace("/etc/", f"{self.folder}/etc/")

    @property
    def command(self) -> list[str]:
        (line,) = re.findall(r"^ExecStart=(.+)$", self.unit, re.MULTILINE)
        words = shlex.split(self.here(line).replace("/opt/symbiont/bin", str(BIN)))
        return [*words, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]

    @contextmanager
    def service(self) -> Iterator[subprocess.Popen[bytes]]:
        """Start the unit, without a home, because a dynamic user has none."""
        settings = dict(line.split("=", 1) for line in re.findall(r"^Environment=(.+)$", self.unit, re.MULTILINE))
        folders = {"STATE": self.state, "RUNTIME": self.runtime}
        environ = {
            "PATH": os.environ["PATH"],
            **settings,
            **{f"{name}_DIRECTORY": str(folder) for name, folder in folders.items()},
            "CREDENTIALS_DIRECTORY": str(self.credentials),
            "EMBEDDING_PROVIDER": "hashing",
            "NOTIFY_SOCKET": str(self.folder / "notify"),
        }
        log = self.folder / "log"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, log.open("ab") as output:
            (self.folder / "notify").unlink(missing_ok=True)
            manager.bind(str(self.folder / "notify"))
            (self.folder / "notify").chmod(0o777)
            manager.setblocking(False)
            process = subprocess.Popen(
                [*READABLE, *AS_NOBODY, *self.command],
                cwd=self.state,
                env=environ,
                umask=0o077,
                stdout=output,
                stderr=output,
            )

            def ready() -> bool:
                assert process.poll() is None, log.read_text()
                try:
                    return manager.recv(4096).startswith(b"READY=1")
                except BlockingIOError:
                    return False

            try:
                until(ready, 120, "READY=1")
                yield process
                process.terminate()
                assert process.wait(60) == 0, log.read_text()
            finally:
                process.kill()
                process.wait(60)

    def symbi(self, *arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
        """Run a command as root, in root's folder."""
        return subprocess.run(
            [*READABLE, BIN / "symbi", *arguments, "--root", self.state],
            cwd="/",
            env=environment(**extra),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def with_key(self) -> dict[str, str]:
        """Return what a command needs, according to the header, while the service is stopped."""
        (reference,) = re.findall(r"^#   SYMBIONT_MASTER_KEY=(\S+) symbi", self.unit, re.MULTILINE)
        return {"SYMBIONT_MASTER_KEY": self.here(reference)}

    def owners(self) -> set[int]:
        return {each.lstat().st_uid for each in (self.state, *self.state.rglob("*"))}


@pytest.fixture
def machine() -> Iterator[Machine]:
    # A folder that only root can write and other users may enter, unlike pytest's folders.
    with tempfile.TemporaryDirectory(prefix="symbiont-test-", dir="/var/lib") as folder:
        Path(folder).chmod(0o755)
        yield Machine(Path(folder))


@LONG
def test_the_unit_starts_as_its_header_has_it_installed_and_root_leaves_nothing_behind(machine: Machine) -> None:
    with machine.service():
        written = machine.symbi("memory", "write", "code-review-agent", "beside the service")
        assert written.returncode == 0, written.stderr
        made = machine.symbi("table", "sql", "CREATE TABLE notes (note TEXT)")
        assert made.returncode == 0, made.stderr
    assert machine.owners() == {NOBODY}

    # Stopped: without the key, the error says where the key is, and no new one is generated.
    for command in (("webhook", "logs"), ("memory", "write", "code-review-agent", "x")):
        done = machine.symbi(*command)
        assert done.returncode == 2
        assert "set SYMBIONT_MASTER_KEY to secret://credential/master-key" in done.stderr
        assert "gone" not in done.stderr
    assert not (machine.state / ".symbi/master.key").exists()

    # With the key, the written files belong to the service, which continues with them.
    written = machine.symbi("memory", "write", "code-review-agent", "while it was stopped", **machine.with_key)
    assert written.returncode == 0, written.stderr
    pushed = machine.symbi("push", str(UNIT.parents[1] / "LICENSE"), **machine.with_key)
    assert pushed.returncode == 0, pushed.stderr
    assert machine.owners() == {NOBODY}

    # Files that a command reads and writes elsewhere are root's, also where no other user has access.
    kept = machine.folder / "kept"
    kept.mkdir(0o700)
    for name in ("one", "two", "three"):
        (kept / f"{name}.txt").write_text(f"{name} more word. " * 20_000)
    pushed = machine.symbi("push", str(kept), "--json", **machine.with_key)
    assert pushed.returncode == 0, pushed.stdout
    assert json.loads(pushed.stdout)["files"] == 3
    exported = machine.symbi("memory", "export", "--output", str(kept / "items"), **machine.with_key)
    assert exported.returncode == 0, exported.stderr
    assert (kept / "items").stat().st_uid == 0
    exported = machine.symbi("table", "export", "--all", str(kept / "tables"), **machine.with_key)
    assert exported.returncode == 0, exported.stderr
    assert (kept / "tables/notes.csv").stat().st_uid == 0
    with machine.service():
        listed = machine.symbi("memory", "list", "--agent", "code-review-agent", "--json")
        texts = {item["text"] for item in json.loads(listed.stdout)["items"]}
        assert texts >= {"beside the service", "while it was stopped"}
        found = machine.symbi("collection", "search", "warranty", "--json")
        assert json.loads(found.stdout)["hits"]
    assert machine.owners() == {NOBODY}


@LONG
def test_a_program_of_another_user_sees_nothing_of_roots_environment(machine: Machine) -> None:
    name = f"SECRET_{secrets.token_hex(4)}"
    program = machine.folder / "etc/symbiont/programs/theirs.symbiont"
    program.write_text(f'webhook w {{\n    path "/w"\n    provider github\n    secret "secret://env/{name}"\n}}\n')
    with machine.service():
        pass
    done = machine.symbi("webhook", "list", **machine.with_key, **{name: "root's own"})
    assert done.returncode == 0, done.stderr
    assert f"the environment variable {name} is not set" in done.stdout


@LONG
def test_root_works_on_no_copy_of_a_services_state_and_on_none_that_its_user_could_move(machine: Machine) -> None:
    with machine.service():
        pass
    copy = machine.folder / "copy"
    subprocess.run(["cp", "-a", machine.state, copy], check=True)
    machine.state = copy
    done = machine.symbi("webhook", "logs", **machine.with_key)
    assert done.returncode == 2
    assert f"belongs to another user (uid {NOBODY})" in done.stderr
    machine.state = machine.folder / "var/lib/symbiont"
    os.chown(machine.state.parent, NOBODY, NOBODY)
    done = machine.symbi("webhook", "logs", **machine.with_key)
    assert done.returncode == 2
    assert f"setpriv --reuid {NOBODY}" in done.stderr

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
KEYS_PAGE = Path(__file__).parents[4] / "docs/keys.md"
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

    def __init__(self, folder: Path, *, private: bool = False) -> None:
        """`private`: with the state where systemd has it for a dynamic user, below a folder that only root may
        enter."""
        self.folder = folder
        self.unit = UNIT.read_text()
        self.given = folder / "var/lib/symbiont"
        self.state = folder / "var/lib/private/symbiont" if private else self.given
        self.shown: tuple[str | Path, ...] = ()
        """The beginning of a command line that shows the state to the service, as systemd does."""
        if private:
            self.state.parent.mkdir(parents=True)
            self.state.parent.chmod(0o700)
            self.given.symlink_to("private/symbiont")
            self.shown = ("unshare", "--mount", "sh", "-ec", OPENED, "sh", self.state, self.state.parent)
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
                [*READABLE, *self.shown, *AS_NOBODY, *self.command],
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
            [*READABLE, BIN / "symbi", *arguments, "--root", self.given],
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


@contextmanager
def made(*, private: bool) -> Iterator[Machine]:
    # A folder that only root can write and other users may enter, unlike pytest's folders.
    with tempfile.TemporaryDirectory(prefix="symbiont-test-", dir="/var/lib") as folder:
        Path(folder).chmod(0o755)
        yield Machine(Path(folder), private=private)


@pytest.fixture
def machine() -> Iterator[Machine]:
    with made(private=False) as machine:
        yield machine


@pytest.fixture
def dynamic() -> Iterator[Machine]:
    with made(private=True) as machine:
        yield machine


@LONG
def test_every_command_of_root_works_on_the_stopped_service_of_a_dynamic_user(dynamic: Machine) -> None:
    with dynamic.service():
        written = dynamic.symbi("memory", "write", "code-review-agent", "beside the service")
        assert written.returncode == 0, written.stderr
    kept = dynamic.folder / "kept"
    kept.mkdir(0o700)
    (kept / "one.txt").write_text("one more word")
    for command in (
        ("webhook", "logs"),
        ("webhook", "list"),
        ("memory", "list", "--agent", "code-review-agent"),
        ("memory", "write", "code-review-agent", "while it was stopped"),
        ("memory", "compact", "code-review-agent"),
        ("memory", "export", "--output", str(kept / "items")),
        ("push", str(kept / "one.txt")),
        ("table", "sql", "CREATE TABLE notes (note TEXT)"),
        ("user", "add", "ada"),
        ("key", "status"),
        ("key", "rotate", "--all"),
        ("key", "export", str(kept / "keys.json")),
        ("key", "import", str(kept / "keys.json")),
    ):
        done = dynamic.symbi(*command, **dynamic.with_key)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        assert dynamic.owners() == {NOBODY}, command
    assert {(each.stat().st_uid, each.stat().st_gid) for each in kept.iterdir()} == {(0, 0)}
    ready = dynamic.symbi("readiness", "--json", **dynamic.with_key)
    assert [row["check"] for row in json.loads(ready.stdout)["checks"]].count("database") == 1, ready.stdout
    assert (dynamic.state.parent.stat().st_mode & 0o777, dynamic.owners()) == (0o700, {NOBODY})
    with dynamic.service():
        listed = dynamic.symbi("memory", "list", "--agent", "code-review-agent", "--json")
        assert {item["text"] for item in json.loads(listed.stdout)["items"]} >= {"while it was stopped"}


@LONG
def test_a_backup_is_restored_as_the_docs_say(dynamic: Machine) -> None:
    backup, keys = dynamic.folder / "backup", dynamic.folder / "keys.json"
    backup.mkdir(0o700)
    with dynamic.service():
        written = dynamic.symbi("memory", "write", "code-review-agent", "worth a backup")
        assert written.returncode == 0, written.stderr
        assert dynamic.symbi("user", "add", "ada").returncode == 0
        assert dynamic.symbi("key", "export", str(keys)).returncode == 0
    names = ("keys.db*", "master.key", "symbiont.db*")
    excluded = [f"--exclude={name}" for name in names]
    subprocess.run(["tar", *excluded, "-C", dynamic.state, "-cf", backup / "root.tar", "."], check=True)
    shutil.copy(dynamic.state / ".symbi/symbiont.db", backup)
    for each in dynamic.state.iterdir():
        shutil.rmtree(each)

    subprocess.run(["tar", "--no-same-owner", "-C", dynamic.given, "-xf", backup / "root.tar"], check=True)
    shutil.copy(backup / "symbiont.db", dynamic.given / ".symbi")
    (text,) = re.findall(r"^ +`(chown .*)`$", KEYS_PAGE.read_text(), re.MULTILINE)
    subprocess.run(["sh", "-ec", text.replace("/var/lib/symbiont", str(dynamic.given))], check=True)
    put_back = dynamic.symbi("key", "import", str(keys), **dynamic.with_key)
    assert put_back.returncode == 0, put_back.stderr
    assert dynamic.owners() == {NOBODY}
    with dynamic.service():
        assert "ada" in dynamic.symbi("user", "list").stdout
        listed = dynamic.symbi("memory", "list", "--agent", "code-review-agent", "--json")
        assert {item["text"] for item in json.loads(listed.stdout)["items"]} == {"worth a backup"}


@LONG
def test_the_user_of_a_service_leads_no_command_of_root_to_files_of_root(dynamic: Machine) -> None:
    secret = dynamic.folder / "secret.md"
    secret.write_text("# Memory\n\n- only root may read this\n")
    secret.chmod(0o600)
    with dynamic.service():
        written = dynamic.symbi("memory", "write", "code-review-agent", "a note")
        assert written.returncode == 0, written.stderr
    memory = next(dynamic.state.rglob("memory.md"), None) or next(dynamic.state.rglob("*.md"))
    memory.unlink()
    memory.symlink_to(secret)
    for name in ("compacted.json", "program.json.tmp"):
        (dynamic.state / ".symbi" / name).unlink(missing_ok=True)
        (dynamic.state / ".symbi" / name).symlink_to(secret)
    before = secret.read_bytes()
    for command in (
        ("memory", "list", "--agent", "code-review-agent"),
        ("memory", "write", "code-review-agent", "another note"),
        ("memory", "compact", "code-review-agent"),
        ("memory", "export"),
    ):
        done = dynamic.symbi(*command, **dynamic.with_key)
        assert "only root may read this" not in done.stdout + done.stderr
        assert secret.read_bytes() == before
        assert secret.stat().st_uid == 0
    # Another folder in place of the state, which belongs to root.
    other = dynamic.folder / "other"
    shutil.copytree(dynamic.state / ".symbi", other, symlinks=True)
    (dynamic.state / ".symbi").rename(dynamic.state / "before")
    (dynamic.state / ".symbi").symlink_to(other)
    done = dynamic.symbi("webhook", "logs", **dynamic.with_key)
    assert done.returncode == 2
    assert "symbolic link" in done.stderr


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
    machine.given = copy
    done = machine.symbi("webhook", "logs", **machine.with_key)
    assert done.returncode == 2
    assert f"belongs to another user (uid {NOBODY})" in done.stderr
    machine.given = machine.state
    os.chown(machine.state.parent, NOBODY, NOBODY)
    done = machine.symbi("webhook", "logs", **machine.with_key)
    assert done.returncode == 2
    assert f"setpriv --reuid {NOBODY}" in done.stderr

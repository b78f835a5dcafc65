"""The backend `keyring`: a keyring in a file, a real Secret Service on its own bus, and none at all."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lanes import LONG

FILE = "keyrings.alt.file.PlaintextKeyring"

# In separate processes: the package selects its keyring once.
READ = """
import asyncio, sys
from pathlib import Path
from runtime.clock import SYSTEM
from runtime.crypto import MasterKey
from runtime.database.connection import Database
from runtime.secrets import keyring, resolve
from runtime.secrets.backend import SecretContext, Unresolved

async def main():
    keyring.TIMEOUT_SECONDS = float(sys.argv[2])
    key = MasterKey(bytes(32))
    database = await Database.open(Path(sys.argv[1]), key)
    for text in sys.argv[3:]:
        try:
            secret = await resolve(text, SecretContext({}, Path("/"), database, key, SYSTEM))
            print("value", secret.reveal().decode(), secret.origin)
        except Unresolved as error:
            print("unresolved", error.line())
    await database.close()

asyncio.run(main())
"""
SET = "import keyring, sys; keyring.set_password(*sys.argv[1:4])"


def python(folder: Path, *arguments: str, **environ: str) -> list[str]:
    return run(folder, sys.executable, *arguments, **environ)


def run(folder: Path, *command: str, **environ: str) -> list[str]:
    """Return the lines that a program prints, isolated from the machine's desktop."""
    kept = {"PATH": os.environ["PATH"], "HOME": str(folder), "XDG_DATA_HOME": str(folder), "LANG": "C.UTF-8"}
    done = subprocess.run(
        command,
        env={**kept, **environ},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def read(folder: Path, *texts: str, seconds: int = 20, environ: dict[str, str]) -> list[str]:
    return python(folder, "-c", READ, str(folder / "k.db"), str(seconds), *texts, **environ)


def test_a_password_of_the_keyring_is_a_secret(tmp_path: Path) -> None:
    environ = {"PYTHON_KEYRING_BACKEND": FILE}
    python(tmp_path, "-c", SET, "symbiont", "github", "hünter 2", **environ)
    python(tmp_path, "-c", SET, "https://example.com/a", "hook", "by its URL", **environ)
    python(tmp_path, "-c", SET, "symbiont", "blank", " ", **environ)
    found = read(
        tmp_path,
        "secret://keyring/symbiont/github",
        "secret://keyring/https://example.com/a/hook",
        "secret://keyring/symbiont/gitlab",
        "secret://keyring/symbiont",
        "secret://keyring/symbiont/",
        "secret://keyring/symbiont/blank",
        environ=environ,
    )
    assert found == [
        "value hünter 2 keyring symbiont/github",
        "value by its URL keyring https://example.com/a/hook",
        "unresolved the keyring has no password of gitlab at symbiont (keyring set symbiont gitlab)",
        "unresolved symbiont does not name a user (write secret://keyring/SERVICE/USER)",
        "unresolved symbiont/ does not name a user (write secret://keyring/SERVICE/USER)",
        "unresolved the secret from keyring symbiont/blank is blank",
    ]


def test_without_a_keyring_it_says_so(tmp_path: Path) -> None:
    environ = {"PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}
    (line,) = read(tmp_path, "secret://keyring/symbiont/github", environ=environ)
    assert line.startswith("unresolved there is no keyring")


@LONG
@pytest.mark.parametrize(
    ("body", "seconds", "told"),
    [
        ("raise KeyringLocked('hunter2')", 60, "unresolved the keyring is locked"),
        ("raise RuntimeError('hunter2')", 60, "unresolved the keyring failed: RuntimeError"),
        ("time.sleep(30)", 1, "unresolved the keyring did not respond in 1 s"),
    ],
)
def test_a_keyring_that_is_locked_fails_or_waits_for_somebody_says_so(
    body: str, seconds: int, told: str, tmp_path: Path
) -> None:
    (tmp_path / "stuck.py").write_text(
        "import time\nfrom keyring.backend import KeyringBackend\nfrom keyring.errors import KeyringLocked\n"
        "class Stuck(KeyringBackend):\n    priority = 1\n"
        "    def set_password(self, service, username, password):\n        pass\n"
        "    def delete_password(self, service, username):\n        pass\n"
        f"    def get_password(self, service, username):\n        {body}\n"
    )
    environ = {"PYTHON_KEYRING_BACKEND": "stuck.Stuck", "PYTHONPATH": str(tmp_path)}
    (line,) = read(tmp_path, "secret://keyring/symbiont/github", seconds=seconds, environ=environ)
    assert line.startswith(told)
    assert "hunter2" not in line


def test_a_real_secret_service_is_asked(tmp_path: Path) -> None:
    for name in ("dbus-run-session", "gnome-keyring-daemon"):
        if shutil.which(name) is None:
            pytest.skip(f"no Secret Service: {name} is not installed")
    script = tmp_path / "session.sh"
    environ = {
        "PYTHON": sys.executable,
        "XDG_RUNTIME_DIR": str(tmp_path),
        "PYTHON_KEYRING_BACKEND": "keyring.backends.SecretService.Keyring",
    }
    texts = ("secret://keyring/symbiont/github", "secret://keyring/symbiont/nobody")

    def session(start: str, *texts: str) -> list[str]:
        script.write_text(f'{start} >/dev/null 2>&1\nexec "$@"\n')
        reading = (sys.executable, "-c", READ, str(tmp_path / "k.db"), "5", *texts)
        return run(tmp_path, "dbus-run-session", "--", "sh", str(script), *reading, **environ)

    unlock = "printf 'pass\\n' | gnome-keyring-daemon --unlock --components=secrets"
    assert session(f'{unlock}; "$PYTHON" -c "{SET}" symbiont github of-the-service', *texts) == [
        "value of-the-service keyring symbiont/github",
        "unresolved the keyring has no password of nobody at symbiont (keyring set symbiont nobody)",
    ]
    # No password is entered in this session.
    (line,) = session("gnome-keyring-daemon --start --components=secrets", texts[0])
    assert re.match("unresolved the keyring (is locked|did not respond in 5 s)", line)

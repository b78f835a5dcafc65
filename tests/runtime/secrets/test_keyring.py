"""The backend `keyring`: a keyring in a file, a real Secret Service on its own bus, and none at all."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from keyring import core
from keyring.backend import KeyringBackend
from keyring.backends import fail
from keyring.errors import KeyringLocked
from keyrings.alt.file import PlaintextKeyring  # type: ignore[import-untyped]

from runtime.secrets import keyring, resolve
from runtime.secrets.backend import Unresolved

# In a process on a bus of its own.
READ = """
import asyncio, sys
from runtime.secrets import keyring
from tests.runtime.secrets.test_keyring import asked

keyring.TIMEOUT_SECONDS = 5.0
for text in sys.argv[1:]:
    print(asyncio.run(asked(text)))
"""
SET = "import keyring, sys; keyring.set_password(*sys.argv[1:4])"


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


Chosen = Callable[[KeyringBackend], None]


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Chosen:
    """Return a function that makes a keyring that of this process."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return lambda backend: monkeypatch.setattr(core, "_keyring_backend", backend)


async def asked(text: str) -> str:
    """Return a secret of the keyring, or why there is none; it needs nothing of a root."""
    context: Any = None
    try:
        secret = await resolve(text, context)
    except Unresolved as error:
        return error.line()
    return f"{secret.reveal().decode()} of {secret.origin}"


async def test_a_password_of_the_keyring_is_a_secret(chosen: Chosen) -> None:
    backend = PlaintextKeyring()
    chosen(backend)
    backend.set_password("symbiont", "github", "hünter 2")
    backend.set_password("https://example.com/a", "hook", "by its URL")
    backend.set_password("symbiont", "blank", " ")
    assert [
        await asked(f"secret://keyring/{path}")
        for path in (
            "symbiont/github",
            "https://example.com/a/hook",
            "symbiont/gitlab",
            "symbiont",
            "symbiont/",
            "symbiont/blank",
        )
    ] == [
        "hünter 2 of keyring symbiont/github",
        "by its URL of keyring https://example.com/a/hook",
        "the keyring has no password of gitlab at symbiont (keyring set symbiont gitlab)",
        "symbiont does not name a user (write secret://keyring/SERVICE/USER)",
        "symbiont/ does not name a user (write secret://keyring/SERVICE/USER)",
        "the secret from keyring symbiont/blank is blank",
    ]


async def test_without_a_keyring_it_says_so(chosen: Chosen) -> None:
    chosen(fail.Keyring())  # type: ignore[no-untyped-call]
    assert (await asked("secret://keyring/symbiont/github")).startswith("there is no keyring")


class Stuck(KeyringBackend):
    """A keyring that does what `does` does."""

    priority = 1

    def __init__(self, does: Callable[[], object]) -> None:
        self._does = does

    def get_password(self, service: str, username: str) -> None:
        self._does()

    def set_password(self, service: str, username: str, password: str) -> None:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (KeyringLocked("hunter2"), "the keyring is locked (unlock it, then send SIGHUP to the daemon)"),
        (RuntimeError("hunter2"), "the keyring failed: RuntimeError"),
    ],
)
async def test_a_keyring_that_is_locked_or_fails_says_so(error: Exception, told: str, chosen: Chosen) -> None:
    def fails() -> None:
        raise error

    chosen(Stuck(fails))
    assert await asked("secret://keyring/symbiont/github") == told


async def test_a_keyring_that_waits_for_somebody_is_not_waited_for(
    chosen: Chosen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyring, "TIMEOUT_SECONDS", 0.1)
    release = threading.Event()
    chosen(Stuck(lambda: release.wait(60)))
    assert (await asked("secret://keyring/symbiont/github")).startswith("the keyring did not respond in 0 s")
    release.set()


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
        reading = (sys.executable, "-c", READ, *texts)
        return run(tmp_path, "dbus-run-session", "--", "sh", str(script), *reading, **environ)

    unlock = "printf 'pass\\n' | gnome-keyring-daemon --unlock --components=secrets"
    assert session(f'{unlock}; "$PYTHON" -c "{SET}" symbiont github of-the-service', *texts) == [
        "of-the-service of keyring symbiont/github",
        "the keyring has no password of nobody at symbiont (keyring set symbiont nobody)",
    ]
    # No password is entered in this session.
    (line,) = session("gnome-keyring-daemon --start --components=secrets", texts[0])
    assert re.match("the keyring (is locked|did not respond in 5 s)", line)

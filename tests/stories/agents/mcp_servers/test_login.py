"""A person logs in to a server from the command line, approves it, and an agent uses it."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from pathlib import Path

import httpx2

from tests.lanes import LONG
from tests.runtime.agents.scripted import ScriptedModel, calling
from tests.runtime.daemon.running import BIN, environment, running, write_program
from tests.runtime.tool_servers.authorization import Authorization, private_service
from tests.stories.agents.mcp_servers.test_approved import approve, called, readiness

pytestmark = LONG


def logged_in(root: Path, *arguments: str) -> tuple[int, str]:
    """Run `symbi mcp-server login`, and open the address that it prints. Return the exit code, and what else it
    prints."""
    process = subprocess.Popen(
        [BIN / "symbi", "mcp-server", "login", *arguments],
        cwd=root, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip
    lines: queue.Queue[str] = queue.Queue()
    assert process.stdout is not None
    output = process.stdout

    def reading() -> None:
        for line in output:
            lines.put(line)

    reader = threading.Thread(target=reading)
    reader.start()
    said = ""
    while process.poll() is None or not lines.empty():
        try:
            line = lines.get(timeout=0.1)
        except queue.Empty:
            continue
        if line.startswith("http"):
            came = httpx2.get(line.strip(), follow_redirects=True)
            assert "You can close this page" in came.text
        else:
            said += line
    reader.join()
    output.close()
    return process.wait(60), said


def test_a_person_logs_in_and_an_agent_uses_the_server(tmp_path: Path) -> None:
    authorization = Authorization()
    with ScriptedModel(calling(text="Done.")) as model, private_service(authorization) as url:
        write_program(tmp_path, f"""\
memory notes {{ path "notes" embedding hashing }}
{model.block}
mcp raw {{ url "{url}" }}
agent helper {{ memory notes model scripted tool_calling native tools ["raw.*"] }}
""")  # fmt: skip
        with running(tmp_path, "program") as daemon:
            refused = daemon.symbi("mcp-server", "approve", "raw", "--yes")
            assert (refused.returncode, "symbi mcp-server login raw" in refused.stderr) == (1, True)
            assert logged_in(tmp_path, "raw")[0] == 2  # it is not approved, and nobody can be asked
            code, said = logged_in(tmp_path, "raw", "--yes")
            assert (code, said.strip().splitlines()[-1]) == (0, "logged in to raw")
            approve(daemon)
            call = called(daemon, model, "raw_whisper")
            assert json.loads(call["output"]) == {"text": "for those who logged in"}
            tokens = [*authorization.tokens, *authorization.refreshes]
        # Also after a start, without a person.
        with running(tmp_path, "program") as daemon:
            assert called(daemon, model, "raw_whisper")["status"] == "ok"
            assert readiness(daemon)[0] == "GREEN"
            log = daemon.log.read_text()
    assert not [token for token in tokens if token in log + said + json.dumps(model.bodies)]

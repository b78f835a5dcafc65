"""`python -m bench.harness.scripted_model STEPS`: a model that answers at once, over HTTP, in a process of its own.

It has the API of OpenAI. In each turn it calls a tool that only reads, STEPS - 1 times, then says something. It prints
its port, and ends with its standard input.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.runtime.agents.scripted import ScriptedModel, says

TOOL = "memory_list"
SUMMARY = "They talked about tea."
_CALLED = re.compile(r'"limit": ?(\d+)')


def reply(body: Mapping[str, Any], steps: int) -> str:
    """Return the reply to a request: the step of the turn is in the call before, whose output is in the request."""
    system, *_, before, last = (str(message["content"]) for message in [{"content": ""}, *body["messages"]])
    if "You keep the summary" in system + before:
        return SUMMARY
    done = int(_CALLED.findall(before)[-1]) if "<tool_output" in last else 0
    return says(**{TOOL: {"limit": done + 1}}) if done < steps - 1 else says("That is all I know about it.")


@contextmanager
def served(steps: int, settings: str = "") -> Iterator[str]:
    """Start the model and yield a block that declares it under the name `scripted`, with more settings."""
    command = [sys.executable, "-m", __name__, str(steps)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"{process.stdout.readline().strip().removesuffix('}')}{settings} }}"
        finally:
            process.communicate()


def main() -> None:
    steps = int(sys.argv[1])
    with ScriptedModel(lambda body: reply(body, steps)) as model:
        print(model.block.strip(), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()

"""llama.cpp in a process by itself: `python -m bench.harness.llama FILE WINDOW THREADS READ WRITE`.

It loads the model, reads a prompt of about READ tokens, writes WRITE tokens, and prints a line of JSON after each step.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def prompt(tokens: int, seed: str) -> str:
    """Return a text of about this many tokens that shares no beginning with one of another seed."""
    return " ".join(f"{seed}{number}" for number in range(tokens * 10 // 35))


def main() -> None:
    import xllamacpp

    file, *numbers = sys.argv[1:]
    window, threads, read, write = map(int, numbers)
    found = xllamacpp.CommonParams()
    found.model.path = file
    found.n_ctx = window
    found.n_parallel = 1
    found.cpuparams.n_threads = found.cpuparams_batch.n_threads = threads
    found.fit_params = found.warmup = found.ui = False
    found.verbosity = 1
    with tempfile.TemporaryDirectory() as folder:
        found.hostnames = [str(Path(folder, "model.sock"))]
        server = xllamacpp.Server(found)
        print(json.dumps({"loaded": True}), flush=True)
        for text, tokens in ((prompt(read, "sea"), 1), ("Write a long story.", write)):
            print(json.dumps(_timed(server, text, tokens)), flush=True)


def _timed(server: Any, text: str, tokens: int) -> dict[str, float]:
    asked = {"messages": [{"role": "user", "content": text}], "max_tokens": tokens, "temperature": 0}
    began = time.perf_counter()
    usage = server.handle_chat_completions(asked)["usage"]
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "read": usage["prompt_tokens"], "written": usage["completion_tokens"]}


if __name__ == "__main__":
    main()

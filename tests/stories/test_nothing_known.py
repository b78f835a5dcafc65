"""A search for something that was never pushed finds nothing, with the recommended threshold and included model."""

from __future__ import annotations

import json
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from bench.relevance import NONSENSE, library
from runtime.search.embedding import default_embedding
from runtime.search.question import RECOMMENDED_THRESHOLD
from tests.lanes import LONG
from tests.runtime.daemon.running import Daemon, running, until, write_program
from tests.runtime.daemon.v1 import ask, make_token

PAGE = Path(__file__).parents[2] / "docs/filters.md"
TALK = [
    "Ada: Did you hear back from the adoption agency? You had the interview on Friday.",
    "Ben: I passed! We may meet the children in March, and I am painting the spare room.",
    "Ada: Wonderful. I sold my first two pots at the market, the blue ones with the handles.",
    "Ben: You have been at that wheel every evening since the summer, so you earned it.",
    "Ada: Next I want to learn how to glaze. The studio has a course, on Tuesdays at six.",
    "Ben: My sister runs her dance school next door. She moved it there from the old mill.",
]
KNOWN = {
    "pages": "how do filters compare a value with a pattern?",
    "library": "which semaphore raises a ValueError in release?",
    "talks": "when is the course on glazing?",
}
PROGRAM = "".join(f"memory {name} {{ store collection embedding local }}\n" for name in KNOWN)


@LONG
@pytest.mark.skipif(default_embedding() is None, reason="the embedding local is not installed")
def test_thirty_questions_about_nothing_that_is_there_find_nothing_in_three_collections(tmp_path: Path) -> None:
    said = {"pages": PAGE.read_text(), "library": list(islice(library(), 60)), "talks": TALK}
    write_program(tmp_path, PROGRAM)
    with running(tmp_path, "program") as daemon:
        token = make_token(daemon, "--scope", "admin")
        for name, texts in said.items():
            folder = tmp_path / name
            folder.mkdir()
            for number, text in enumerate([texts] if isinstance(texts, str) else texts):
                (folder / f"{number}.md").write_text(text)
            done = daemon.symbi("push", str(folder), "--collection", name)
            assert done.returncode == 0, done.stdout + done.stderr
        for name, question in KNOWN.items():
            until(partial(_has_vectors, daemon, token, name), what="the vectors")
            assert _found(daemon, token, name, question) != []
            passed = {text: hits for text in NONSENSE if (hits := _found(daemon, token, name, text))}
            assert passed == {}


def _answer(daemon: Daemon, token: str, collection: str, text: str) -> Any:
    asked = {"query_text": text, "collection": collection, "score_threshold": RECOMMENDED_THRESHOLD}
    answer = ask(daemon, token, "POST", "/search", asked)
    assert answer.status == 200, answer
    return json.loads(answer.body)


def _found(daemon: Daemon, token: str, collection: str, text: str) -> list[str]:
    return [f"{hit['relevance']}: {hit['text']}" for hit in _answer(daemon, token, collection, text)["hits"]]


def _has_vectors(daemon: Daemon, token: str, collection: str) -> bool:
    notes = _answer(daemon, token, collection, "what has a vector?")["notes"]
    return not any("vector" in note or "keyword only" in note for note in notes)

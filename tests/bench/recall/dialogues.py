"""A small dialogue with questions, as a line of a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SAID = [
    ("1", 1, "Ada", "What became of the old lighthouse?", None),
    ("2", 1, "Ben", "They sold it to a painter from Bergen.", "a photo of a white tower"),
    ("3", 1, "Ada", "The cat had kittens, four of them.", None),
    ("4", 2, "Ben", "My bicycle was stolen from the station.", None),
    ("5", 2, "Ada", "Take mine, I go on foot.", None),
]
ASKED = [
    ("How many kittens did Ada's cat have?", "single_hop", ["3"]),
    ("Who bought the lighthouse?", "multi_hop", ["2"]),
    ("What was stolen from Ada?", "adversarial", ["4"]),
    ("Who has no evidence?", "temporal", []),
]


def dialogue(conv: str = "Talk-1", *, kind: str | None = None, **more: str) -> dict[str, Any]:
    """Return one conversation; `kind`: of its questions."""
    return {
        "conv": conv,
        **more,
        "items": [
            {
                "id": id_,
                "session": session,
                "iso": f"2024-03-0{session}T10:00:00",
                "speaker": who,
                "text": text,
                "caption": caption,
            }
            for id_, session, who, text, caption in SAID
        ],
        "queries": [
            {"q": text, "cat": category, "evidence": evidence} | ({"kind": kind} if kind else {})
            for text, category, evidence in ASKED
        ],
    }


def written(path: Path, *conversations: dict[str, Any]) -> Path:
    """Write a file of conversations."""
    path.write_text("".join(json.dumps(each) + "\n" for each in conversations), encoding="utf-8")
    return path

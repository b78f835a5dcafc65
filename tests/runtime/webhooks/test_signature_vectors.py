"""The shared signature vectors, for the providers that this table has."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

from runtime.webhooks import PROVIDERS, Refused, verify

DATA = os.environ.get("SYMBIONT_DATA")


def every() -> list[dict[str, Any]]:
    if not DATA:
        return []
    with (Path(DATA) / "signature_vectors.jsonl").open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def vectors() -> list[dict[str, Any]]:
    return [row for row in every() if row["provider"] in PROVIDERS and row["level"] == "verifier"]


@pytest.mark.skipif(not DATA, reason="SYMBIONT_DATA is not set: the signature vectors are not here")
def test_the_table_has_every_provider_of_the_vectors() -> None:
    assert {row["provider"] for row in every()} <= set(PROVIDERS)


@pytest.mark.skipif(not DATA, reason="SYMBIONT_DATA is not set: the signature vectors are not here")
@pytest.mark.parametrize("row", vectors(), ids=lambda row: row["id"])
def test_the_verdict_is_the_vectors(row: dict[str, Any]) -> None:
    def run() -> None:
        verify(
            row["provider"],
            [row["secret"]],
            [(name, value) for name, value in row["headers"]],
            base64.b64decode(row["body_base64"]),
            now=row["time"],
            method=row["method"],
            url=row["url"],
            options=row.get("options"),
        )

    if row["expect"] == "valid":
        run()
    else:
        with pytest.raises(Refused):
            run()

"""The shared signature vectors, for the providers that this table has."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

from runtime.database.connection import Database
from runtime.webhooks.providers import PROVIDERS
from runtime.webhooks.receiving.admission import Admission
from runtime.webhooks.request.refusal import RefusedRequest
from tests.clocks import ManualClock
from tests.runtime.http.memory import play
from tests.runtime.webhooks.candidates import candidate
from tests.signatures import verify

DATA = os.environ.get("SYMBIONT_DATA")


def every() -> list[dict[str, Any]]:
    if not DATA:
        return []
    with (Path(DATA) / "signature_vectors.jsonl").open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def vectors(level: str) -> list[dict[str, Any]]:
    return [row for row in every() if row["level"] == level]


@pytest.mark.skipif(not DATA, reason="SYMBIONT_DATA is not set: the signature vectors are not here")
def test_the_table_has_every_provider_of_the_vectors() -> None:
    assert {row["provider"] for row in every()} <= set(PROVIDERS)
    assert {row["level"] for row in every()} == {"verifier", "http"}


@pytest.mark.skipif(not DATA, reason="SYMBIONT_DATA is not set: the signature vectors are not here")
@pytest.mark.parametrize("row", vectors("verifier"), ids=lambda row: row["id"])
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
        with pytest.raises(RefusedRequest):
            run()


async def received(row: dict[str, Any], database: Database) -> bool:
    """Return True if the request is accepted, as bytes that are parsed, verified and admitted at the row's time."""
    body = base64.b64decode(row["body_base64"])
    lines = [f"{row['method']} / HTTP/1.1", "Host: x", *(f"{name}: {value}" for name, value in row["headers"])]
    ((head, _),) = (await play("\r\n".join((*lines, "", "")).encode())).taken
    try:
        verified = verify(row["provider"], [row["secret"]], list(head.pairs), body, now=row["time"])
    except RefusedRequest:
        return False
    tolerance = PROVIDERS[row["provider"]].scheme.tolerance
    timed = verified.timestamp is not None and tolerance is not None
    key = verified.mac if timed else None
    until = (verified.timestamp or 0) + (tolerance or 0) if timed else 0
    given = candidate(verified.delivery_id, body=body, replay_key=key, replay_until=until)
    decision = await Admission(database, ManualClock(row["time"])).admit(given)
    return decision.verdict == "accepted"


@pytest.mark.skipif(not DATA, reason="SYMBIONT_DATA is not set: the signature vectors are not here")
@pytest.mark.parametrize("row", vectors("http"), ids=lambda row: row["id"])
async def test_the_verdict_on_a_whole_request_is_the_vectors(row: dict[str, Any], database: Database) -> None:
    for prior in [each for each in every() if each["id"] == row.get("requires_prior")]:
        assert await received(prior, database)
    assert await received(row, database) == (row["expect"] == "valid")

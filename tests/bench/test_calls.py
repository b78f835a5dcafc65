from __future__ import annotations

import tomllib

from bench import calls
from tests.budget import FILE


def test_no_request_costs_more_than_its_budget() -> None:
    found = calls.measure(rounds=2)
    limits = tomllib.loads(FILE.read_text(encoding="utf-8"))["costs"]
    assert limits.keys() == found.keys()
    over = [
        f"{request}: {found[request][name]:,} {name}, and at most {most:,} are allowed"
        for request, of_request in limits.items()
        for name, most in of_request.items()
        if found[request][name] > most
    ]
    assert not over, "\n".join(over)

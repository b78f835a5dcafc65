"""Limits of users and agents, as commands print them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

LIMITS: Final[Mapping[str, str]] = {
    "tokens_per_day": "tokens per day",
    "cost_per_day": "cost per day",
    "runs_per_hour": "runs per hour",
}
"""The limits, and how each is called."""


def amount_text(limit: str, number: float) -> str:
    """Return the amount of a limit, or what is used of it: dollars with their sign, else a whole number."""
    return f"${number:,.4f}" if limit == "cost_per_day" else f"{number:,.0f}"

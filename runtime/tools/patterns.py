"""Patterns of names and ids in parameters."""

from __future__ import annotations

from typing import Final

AGENT: Final = r"^[A-Za-z0-9_.-]{1,64}$"
UUID: Final = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"

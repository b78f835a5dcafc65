"""Calls that the daemon makes of its own accord: to where, how long, how much."""

from __future__ import annotations

from runtime.outbound.key_store import KeyStore

__all__ = ["KeyStore"]

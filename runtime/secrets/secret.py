"""A secret's bytes, wrapped so that no repr, log line or error ever shows them."""

from __future__ import annotations


class Secret:
    """Bytes that only `reveal()` gives out. Compares by identity; prints as `Secret(…)`."""

    __slots__ = ("_value", "origin")

    def __init__(self, value: bytes, origin: str) -> None:
        """`origin`: where it is from, safe to show, such as `env GITHUB_SECRET`."""
        self._value = value
        self.origin = origin

    def reveal(self) -> bytes:
        """The bytes. Only what signs, verifies or was asked for just this may call it."""
        return self._value

    def __repr__(self) -> str:
        return f"Secret({self.origin})"

    def __reduce__(self) -> str:
        raise TypeError("a secret is not pickled")

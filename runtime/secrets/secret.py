"""A secret's bytes, wrapped so that no repr, log line or error shows them."""

from __future__ import annotations


class Secret:
    """Bytes that only `reveal()` returns. Compares by identity; prints as `Secret(…)`.

    A secret with limited validity has `until`, which verification compares with the clock at each request
    (`runtime.webhooks.verification`), so that expired secrets need no removal.
    """

    __slots__ = ("_value", "origin", "previous", "until")

    def __init__(
        self, value: bytes, origin: str, *, until: float | None = None, previous: Secret | None = None
    ) -> None:
        """`origin`: the source, safe to show, such as `env GITHUB_SECRET`. `until`: Unix seconds at which it becomes
        invalid; None: no limit. `previous`: the secret that it replaced and that is still valid, with an `until`."""
        self._value = value
        self.origin = origin
        self.until = until
        self.previous = previous

    def reveal(self) -> bytes:
        """Return the bytes. Only for code that signs, verifies or shows the secret on request."""
        return self._value

    def __repr__(self) -> str:
        return f"Secret({self.origin})"

    def __reduce__(self) -> str:
        raise TypeError("a secret is not pickled")

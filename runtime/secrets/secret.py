"""A secret's bytes, wrapped so that no repr, log line or error ever shows them."""

from __future__ import annotations


class Secret:
    """Bytes that only `reveal()` gives out. Compares by identity; prints as `Secret(…)`.

    A secret that is good for a while only says so by `until`, and what verifies looks at the clock for each request
    (`runtime.webhooks.verification.secret_rotation`): nobody has to take it away when its time is over.
    """

    __slots__ = ("_value", "origin", "previous", "until")

    def __init__(
        self, value: bytes, origin: str, *, until: float | None = None, previous: Secret | None = None
    ) -> None:
        """`origin`: where it is from, safe to show, such as `env GITHUB_SECRET`. `until`: the Unix time in seconds from
        which it is no good any more; None: good for ever. `previous`: the one that it replaced and that is still good,
        with an `until`."""
        self._value = value
        self.origin = origin
        self.until = until
        self.previous = previous

    def reveal(self) -> bytes:
        """The bytes. Only what signs, verifies or was asked for just this may call it."""
        return self._value

    def __repr__(self) -> str:
        return f"Secret({self.origin})"

    def __reduce__(self) -> str:
        raise TypeError("a secret is not pickled")

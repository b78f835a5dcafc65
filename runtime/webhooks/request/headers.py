"""Headers of a request as received, looked up by name, case-insensitive."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from runtime.webhooks.request.refusal import RefusedRequest


class Headers:
    """Header values by name.

    Built from (name, value) pairs in the order received. Surrounding white space is not part of a value (RFC 9110
    section 5.5). Names that are not ASCII are not header names (section 5.6.2) and never found.
    """

    __slots__ = ("_repeated", "_values", "pairs")

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self.pairs = tuple(pairs)
        self._values: dict[str, str] = {}
        repeated: set[str] = set()
        self._repeated: Set[str] = repeated
        for name, value in self.pairs:
            if not name.isascii():
                continue
            key = name.lower()
            if key in self._values:
                repeated.add(key)
            else:
                self._values[key] = value.strip(" \t")

    @classmethod
    def of(cls, pairs: Sequence[tuple[str, str]], first: dict[str, str], repeated: Set[str]) -> Headers:
        """Build from parsed headers: the first value of each name, trimmed, with the name in lower case and ASCII, and
        the names that occurred more than once."""
        headers = cls.__new__(cls)
        headers.pairs = tuple(pairs)
        headers._values, headers._repeated = first, repeated
        return headers

    def get(self, name: str) -> str | None:
        """Return the first value of `name` (in lower case), trimmed; None if absent."""
        return self._values.get(name)

    def one(self, name: str, *, repeated: str) -> str | None:
        """Return the only value of `name` (in lower case), trimmed; None if absent.

        Raises `RefusedRequest(repeated)` if it was sent more than once: code that reads the first value and code that
        reads the last must never disagree about what was signed.
        """
        if name in self._repeated:
            raise RefusedRequest(repeated)
        return self._values.get(name)

    def require(self, name: str, missing: str) -> str:
        """Return the only value of `name` (in lower case), for a proof. Raises `RefusedRequest`: `missing` if it is
        absent or empty, `ambiguous_signature` if it was sent more than once."""
        value = self.one(name, repeated="ambiguous_signature")
        if not value:
            raise RefusedRequest(missing)
        return value

"""A request's headers as received, looked up by name without regard to case."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from runtime.webhooks.request.refusal import Refused


class Headers:
    """Header values by name.

    Built of (name, value) pairs in the order received. White space around a value is no part of it (RFC 9110
    section 5.5). Names that are not ASCII are no header names (section 5.6.2) and never found.
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
        """Headers that have been sorted already: the first value of each name, trimmed, the name in lower case and all
        ASCII, and the names that came more than once."""
        headers = cls.__new__(cls)
        headers.pairs = tuple(pairs)
        headers._values, headers._repeated = first, repeated
        return headers

    def get(self, name: str) -> str | None:
        """The first value of `name` (given in lower case), trimmed; None when absent."""
        return self._values.get(name)

    def one(self, name: str, *, repeated: str) -> str | None:
        """The only value of `name` (given in lower case), trimmed; None when absent.

        Raises `Refused(repeated)` when it was sent more than once: what reads the first and what reads the last
        must never disagree about what was signed.
        """
        if name in self._repeated:
            raise Refused(repeated)
        return self._values.get(name)

    def required(self, name: str, missing: str) -> str:
        """The only value of `name` (in lower case), for what proves a request. Raises `Refused`: `missing` when there
        is none or it is empty, `ambiguous_signature` when it was sent more than once."""
        value = self.one(name, repeated="ambiguous_signature")
        if not value:
            raise Refused(missing)
        return value

"""Errors of a search, named for what the caller does next."""

from __future__ import annotations

from runtime.errors import Retry, SymbiontError, UsageError


class IndexFailed(SymbiontError):  # noqa: N818 - errors are named for what happened
    """The index could not be read or written. The items are in the store, unaffected."""


class EmbeddingUnavailable(Retry):
    """Embedding is unavailable at the moment; a later try may succeed. Searches use keywords only."""


class EmbeddingMismatch(UsageError):  # noqa: N818
    """The embedding differs from its declaration, for instance in its dimension: a person must fix it."""

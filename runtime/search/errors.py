"""What can go wrong with a search, named for what the caller does next."""

from __future__ import annotations

from runtime.errors import Retry, SymbiontError, UsageError


class IndexFailed(SymbiontError):  # noqa: N818 - errors are named for what happened
    """The index could not be read or written. What is remembered is in the store and untouched."""


class EmbeddingUnavailable(Retry):
    """Nothing can be embedded at the moment; the same texts can be tried again. Searches go on by keyword."""


class EmbeddingMismatch(UsageError):  # noqa: N818
    """The embedding answered something else than was declared, such as another dimension: a person must mend it."""

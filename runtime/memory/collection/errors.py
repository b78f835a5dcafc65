"""Turns errors of the database into errors of stores, for callers that know only stores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from runtime.crypto import Unsealable
from runtime.database.errors import Unavailable
from runtime.memory.errors import FsyncFailed, StoreError


class StoreAway(StoreError, Unavailable):  # noqa: N818 - named for the decision
    """The database that holds the collection is unavailable. Nothing was stored, and a later try may succeed; code that
    handles `Unavailable` handles it, too."""


@contextmanager
def store_errors(memory: str) -> Iterator[None]:
    """Raise an error of the database as StoreError: `StoreAway`, or FsyncFailed if its disk fails."""
    try:
        yield
    except StoreError:
        raise
    except Unavailable as error:
        if error.fatal:
            raise FsyncFailed(f"the collection {memory} may not be on disk: {error}") from error
        hint = error.hint or "nothing was stored; try again when the database can be used"
        raise StoreAway(f"the collection {memory} is not available at the moment: {error}", hint=hint) from error
    except Unsealable as error:
        raise StoreError(f"an item of the collection {memory} cannot be decrypted: {error}", hint=error.hint) from error


@contextmanager
def rows_errors(many: str, one: str) -> Iterator[None]:
    """Like `store_errors`, for a store that reads other rows of the database. `many`, `one`: what these are called."""
    try:
        yield
    except StoreError:
        raise
    except Unavailable as error:
        if error.fatal:
            raise FsyncFailed(f"{many} may not be on disk: {error}") from error
        raise StoreAway(f"{many} cannot be read at the moment: {error}", hint=error.hint) from error
    except Unsealable as error:
        raise StoreError(f"{one} cannot be decrypted: {error}", hint=error.hint) from error

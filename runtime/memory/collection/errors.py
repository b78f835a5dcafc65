"""Turns errors of the database into errors of stores, for callers that know only stores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from runtime.crypto import Unsealable
from runtime.database.errors import Unavailable
from runtime.memory.errors import FsyncFailed, StoreError


class StoreAway(StoreError, Unavailable):  # noqa: N818 - named for the decision
    """The database that holds the collection is unavailable. Nothing was stored, and a later try may succeed; code that
    handles `Unavailable` handles it, too."""


@contextmanager
def rows_errors(many: str, one: str, away: str = "cannot be read", hint: str | None = None) -> Iterator[None]:
    """Raise an error of the database as StoreError: `StoreAway`, or FsyncFailed if its disk fails. `many`, `one`: what
    the store's rows are called. `away`, `hint`: of `StoreAway`."""
    try:
        yield
    except StoreError:
        raise
    except Unavailable as error:
        if error.fatal:
            raise FsyncFailed(f"{many} may not be on disk: {error}") from error
        raise StoreAway(f"{many} {away} at the moment: {error}", hint=error.hint or hint) from error
    except Unsealable as error:
        raise StoreError(f"{one} cannot be decrypted: {error}", hint=error.hint) from error


def store_errors(memory: str) -> AbstractContextManager[None]:
    """Do `rows_errors` for a collection memory."""
    hint = "nothing was stored; try again when the database can be used"
    return rows_errors(f"the collection {memory}", f"an item of the collection {memory}", "is not available", hint)

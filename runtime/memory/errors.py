"""What can go wrong with a memory, named for what the caller does next."""

from __future__ import annotations

from runtime.errors import GiveUp, Retry, SymbiontError


class StoreError(SymbiontError):
    """The store could not be read or written; the message names the file and the hint says what to do."""


class StoreBusy(StoreError, Retry):  # noqa: N818 - errors are named for the decision
    """Someone else kept writing to the same memory for too long; nothing was written."""


class RefusedItem(StoreError, GiveUp):  # noqa: N818
    """This item can never be stored as it is: too large, an illegal name, or it could not be redacted."""


class NoSuchItem(StoreError):  # noqa: N818
    """No item has this memory_id; a person may have changed its text, which changes its id."""


class Unsupported(StoreError):  # noqa: N818
    """The store does not declare the capability that was asked for."""


class FsyncFailed(StoreError):  # noqa: N818
    """The operating system could not say that a write is on disk. Fatal: the process must stop and say so.

    After a failed fsync the kernel may drop the dirty pages and report success the next time, so nothing written since
    the last good one can be trusted, and the store refuses every write from here on.
    """

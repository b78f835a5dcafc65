"""Errors of memories, named for what the caller does next."""

from __future__ import annotations

from runtime.errors import GiveUp, Retry, SymbiontError


class StoreError(SymbiontError):
    """The store could not be read or written; the message names the file, the hint says what to do."""


class StoreBusy(StoreError, Retry):  # noqa: N818 - errors are named for the decision
    """Another process kept writing to the same memory for too long; nothing was written."""


class RefusedItem(StoreError, GiveUp):  # noqa: N818
    """This item can never be stored as it is: too large, an invalid name, or it could not be redacted."""


class NoSuchItem(StoreError):  # noqa: N818
    """No item has this memory_id. A person may have changed its text, and so its id."""


class Unsupported(StoreError):  # noqa: N818
    """The store does not have the requested capability."""


class FsyncFailed(StoreError):  # noqa: N818
    """The operating system could not confirm that a write is on disk. Fatal: the process must report it and stop.

    After a failed fsync the kernel may drop the dirty pages and report success the next time. So nothing written since
    the last successful one can be trusted, and the store refuses every further write.
    """

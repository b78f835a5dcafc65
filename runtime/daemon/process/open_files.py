"""The limit of open files: each connection needs one, and storing deliveries needs some."""

from __future__ import annotations

import resource
from contextlib import suppress

RESERVED = 192
"""Files for all that is not a sender's connection: operators, the database, memories, watched folders, fetched keys."""


def room_for(connections: int) -> int:
    """Return how many of these connections fit, beside `RESERVED` files.

    The soft limit of open files (RLIMIT_NOFILE) is raised up to the hard one: many systems start programs with 1024.
    Without the reserve, a sender that opens many connections would leave no files for storing.
    """
    wanted = connections + RESERVED
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return connections
    raised = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    # macOS has a limit of its own, which is below what it says.
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        soft = raised
    return max(1, min(connections, soft - RESERVED))

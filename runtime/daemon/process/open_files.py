"""How many files this process may have open: each connection is one, and storing what comes in takes some too."""

from __future__ import annotations

import resource
from contextlib import suppress

RESERVED = 192
"""Files for all that is not a sender's connection: operators, the database, memories, watched folders, fetched keys."""


def room_for(connections: int) -> int:
    """How many of so many connections there is room for, beside `RESERVED` files.

    The limit of open files (RLIMIT_NOFILE) is raised for them as far as the hard one lets it: many systems start
    programs with 1024. Where connections were all of it, whoever opened as many would leave none to store with.
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

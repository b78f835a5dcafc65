"""The limit of open files: each connection needs one, and storing deliveries needs some."""

from __future__ import annotations

import resource
from contextlib import suppress

RESERVED = 448
"""Open files for everything but senders' connections: operators, database, memories, watched folders, fetched keys, and
processes of users' tables."""

MORE_FOR_OPERATORS = 448
"""Connections of operators beyond the 64 of the reserve, where the limit allows them: streams of agents stay open."""


def room_for_operators(connections: int) -> int:
    """Return the number of possible connections of operators besides `connections` of senders."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    left = MORE_FOR_OPERATORS if soft == resource.RLIM_INFINITY else soft - RESERVED - connections
    return 64 + max(0, min(MORE_FOR_OPERATORS, left))


def room_for(connections: int) -> int:
    """Return the number of these connections that are possible besides `RESERVED` files.

    The soft limit of open files (RLIMIT_NOFILE) is raised up to the hard one: many systems start programs with 1024.
    Without the reserve, a sender that opens many connections would leave no files for storing deliveries.
    """
    wanted = connections + RESERVED + MORE_FOR_OPERATORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return connections
    raised = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    # macOS has an additional limit, which is lower than the hard limit it reports.
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        soft = raised
    return max(1, min(connections, soft - RESERVED))

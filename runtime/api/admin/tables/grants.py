"""What an administrator of PostgreSQL has to allow for users' SQL tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runtime.api.admin.parameters import flag, integer
from runtime.api.admin.state import AdminContext
from runtime.errors import UsageError


async def grants(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return in `sql` the statements for a superuser. `pool`: number of roles to prepare; `strict`: with those that are
    optional."""
    pool, strict = integer(parameters, "pool", 0, 0, 10_000), flag(parameters, "strict")
    if context.database.kind != "postgresql":
        raise UsageError("the database is a file: its users' tables need no rights", hint="set SYMBIONT_DATABASE")
    from runtime.tables.postgres.grants import grants as statements

    return {"sql": await statements(context.database, pool=pool, strict=strict)}

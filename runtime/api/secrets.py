"""The resource `secrets`: shown only where someone asks for just that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select

from runtime.api.house import House
from runtime.api.parameters import text, unknown
from runtime.database import schema
from runtime.secrets import generated


async def show(house: House, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """`name` → its `value`. Only generated secrets are ours to show."""
    name = text(parameters, "name")
    value = await generated.find(name, house.secrets)
    if value is None:
        async with house.database.read() as connection:
            rows = await connection.execute(select(schema.secrets.c.name))
        raise unknown("generated secret", name, (row.name for row in rows))
    return {"name": name, "value": value.decode()}

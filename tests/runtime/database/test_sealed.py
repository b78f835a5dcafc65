"""Sealed columns accept only sealed values, and open them only in their own row."""

from __future__ import annotations

import pytest
from sqlalchemy import insert, select

from runtime.crypto import Unsealable
from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.schema import bodies, meta, secrets
from runtime.database.sealed import Seal


async def test_a_sealed_value_comes_back_from_its_row(database: Database) -> None:
    seal = Seal(database.keys, secrets.c.value)
    async with database.write() as connection:
        value = seal.close(b"plain", row="github", version=0)
        await connection.execute(insert(secrets).values(name="github", value=value, created_at=1))
    async with database.read() as connection:
        stored = (await connection.execute(select(secrets.c.value))).scalar_one()
    assert b"plain" not in stored
    assert seal.open(stored, row="github", version=0) == b"plain"


async def test_a_sealed_value_moved_to_another_row_does_not_open(database: Database) -> None:
    seal = Seal(database.keys, secrets.c.value)
    with pytest.raises(Unsealable, match="changed or moved"):
        seal.open(seal.close(b"plain", row="github", version=0), row="stripe", version=0)


async def test_an_old_value_beside_a_newer_version_does_not_open(database: Database) -> None:
    seal = Seal(database.keys, secrets.c.value)
    with pytest.raises(Unsealable, match="an older value"):
        seal.open(seal.close(b"plain", row="github", version=1), row="github", version=2)


async def test_a_column_with_versions_is_not_sealed_without_one(database: Database) -> None:
    with pytest.raises(TypeError, match="has a version"):
        Seal(database.keys, secrets.c.value).close(b"plain", row="github")
    with pytest.raises(TypeError, match="has no version"):
        Seal(database.keys, bodies.c.body).close(b"plain", row="1", version=1)


async def test_unsealed_bytes_are_refused_at_bind(database: Database) -> None:
    async with database.write() as connection:
        with pytest.raises(Exception, match=r"accepts only results of Seal\.close"):
            await connection.execute(insert(secrets).values(name="github", value=b"plain", created_at=1))


async def test_unsealed_bytes_are_refused_by_bulk_statements_too(database: Database) -> None:
    rows = [("id", "owner", b"plain")]
    with pytest.raises(TypeError, match=r"accepts only results of Seal\.close"):
        await database.transact(lambda c: bulk.insert(c, bodies, ("delivery_id", "user_id", "body"), rows))


async def test_only_sealed_columns_can_be_sealed(database: Database) -> None:
    with pytest.raises(TypeError, match="not a sealed column"):
        Seal(database.keys, meta.c.value)

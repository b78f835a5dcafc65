"""Sealed columns accept only sealed values, and open them only in their own row."""

from __future__ import annotations

import pytest
from sqlalchemy import insert, select

from runtime.crypto import MasterKey, SealedBytes, Unsealable
from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.schema import bodies, meta, secrets
from runtime.database.sealed import Seal


async def test_a_sealed_value_comes_back_from_its_row(database: Database) -> None:
    seal = Seal(database.master_key, secrets.c.value)
    async with database.write() as connection:
        value = seal.close(b"plain", row="github")
        await connection.execute(insert(secrets).values(name="github", value=value, created_at=1))
    async with database.read() as connection:
        stored = (await connection.execute(select(secrets.c.value))).scalar_one()
    assert b"plain" not in stored
    assert seal.open(stored, row="github") == b"plain"


async def test_a_sealed_value_moved_to_another_row_does_not_open(database: Database) -> None:
    seal = Seal(database.master_key, secrets.c.value)
    with pytest.raises(Unsealable, match="changed or moved"):
        seal.open(seal.close(b"plain", row="github"), row="stripe")


async def test_unsealed_bytes_are_refused_at_bind(database: Database) -> None:
    async with database.write() as connection:
        with pytest.raises(Exception, match=r"accepts only results of MasterKey\.seal"):
            await connection.execute(insert(secrets).values(name="github", value=b"plain", created_at=1))


async def test_unsealed_bytes_are_refused_by_bulk_statements_too(database: Database) -> None:
    rows = [("id", "owner", b"plain")]
    with pytest.raises(TypeError, match=r"accepts only results of MasterKey\.seal"):
        await database.transact(lambda c: bulk.insert(c, bodies, ("delivery_id", "user_id", "body"), rows))


def test_only_sealed_columns_can_be_sealed(master_key: MasterKey) -> None:
    with pytest.raises(TypeError, match="not a sealed column"):
        Seal(master_key, meta.c.value)


def test_the_master_key_returns_what_the_column_takes(master_key: MasterKey) -> None:
    assert isinstance(master_key.seal(b"", user_id="owner", table="t", column="c", row="r"), SealedBytes)

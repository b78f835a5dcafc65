"""Sealed columns, unreadable in a copied database, and the class that seals and opens their values."""

from __future__ import annotations

from sqlalchemy import Column, Dialect, LargeBinary, TypeDecorator

from runtime.crypto import MasterKey, SealedBytes


class Sealed(TypeDecorator[bytes]):
    """A binary column that accepts only results of `MasterKey.seal`; anything else raises TypeError at bind."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: bytes | None, dialect: Dialect) -> bytes | None:
        if value is not None and not isinstance(value, SealedBytes):
            raise TypeError(f"a sealed column accepts only results of MasterKey.seal, not {type(value).__name__}")
        return value


class Seal:
    """Seals and opens the values of one Sealed column."""

    __slots__ = ("_column", "_key", "_table")

    def __init__(self, key: MasterKey, column: Column[bytes]) -> None:
        """`column`: of a table. Raises TypeError if it is not `Sealed`."""
        if not isinstance(column.type, Sealed):
            raise TypeError(f"{column} is not a sealed column")
        self._key = key
        self._table = column.table.name
        self._column = column.name

    def close(self, plaintext: bytes, *, row: str, user_id: str = "owner") -> SealedBytes:
        """Seal `plaintext` for the row whose id is `row`."""
        return self._key.seal(plaintext, user_id=user_id, table=self._table, column=self._column, row=row)

    def open(self, sealed: bytes, *, row: str, user_id: str = "owner") -> bytes:
        """Return the plaintext. Raises `runtime.crypto.Unsealable` for another key, another row or changed bytes."""
        return self._key.unseal(sealed, user_id=user_id, table=self._table, column=self._column, row=row)

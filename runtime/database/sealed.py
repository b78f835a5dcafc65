"""Columns whose content is unreadable in a copied database, and the hand that seals and opens them."""

from __future__ import annotations

from sqlalchemy import Column, Dialect, LargeBinary, TypeDecorator

from runtime.crypto import MasterKey, SealedBytes


class Sealed(TypeDecorator[bytes]):
    """A binary column that takes only what `MasterKey.seal` returned; anything else raises TypeError at bind."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: bytes | None, dialect: Dialect) -> bytes | None:
        if value is not None and not isinstance(value, SealedBytes):
            raise TypeError(f"a sealed column was given {type(value).__name__}, not what MasterKey.seal returned")
        return value


class Seal:
    """Seals and opens the values of one Sealed column."""

    __slots__ = ("_column", "_key", "_table")

    def __init__(self, key: MasterKey, column: Column[bytes]) -> None:
        """`column`: of a table. Raises TypeError when it is not a `Sealed` one."""
        if not isinstance(column.type, Sealed):
            raise TypeError(f"{column} is not a sealed column")
        self._key = key
        self._table = column.table.name
        self._column = column.name

    def close(self, plaintext: bytes, *, row: str, user_id: str = "owner") -> SealedBytes:
        """Seal `plaintext` for the row whose id is `row`."""
        return self._key.seal(plaintext, user_id=user_id, table=self._table, column=self._column, row=row)

    def open(self, sealed: bytes, *, row: str, user_id: str = "owner") -> bytes:
        """The plaintext. Raises `runtime.crypto.Unsealable` for another key, another row or changed bytes."""
        return self._key.unseal(sealed, user_id=user_id, table=self._table, column=self._column, row=row)

"""Sealed columns, unreadable in a copied database, and the class that seals and opens their values."""

from __future__ import annotations

from sqlalchemy import Column, Dialect, LargeBinary, TypeDecorator

from runtime.crypto import SealedBytes
from runtime.database.keys.ring import KeyRing


class Sealed(TypeDecorator[bytes]):
    """A binary column that accepts only sealed values; anything else raises TypeError at bind.

    `version`: the column of the row whose number changes with every new value. It is authenticated with the value, so
    an old value that is put back beside a newer version does not open. None: the value of a row never changes.
    `counted`: its values are texts that count towards what their user may store.
    """

    impl = LargeBinary
    cache_ok = True

    def __init__(self, version: str | None = None, *, counted: bool = False) -> None:
        super().__init__()
        self.version = version
        self.counted = counted

    def process_bind_param(self, value: bytes | None, dialect: Dialect) -> bytes | None:
        if value is not None and not isinstance(value, SealedBytes):
            raise TypeError(f"a sealed column accepts only results of Seal.close, not {type(value).__name__}")
        return value


class Seal:
    """Seals and opens the values of one Sealed column, each with the key of its user.

    `row` is the row's primary key without the user's id, joined by `/`: under that name the values of all columns are
    sealed again when a key is rotated.
    """

    __slots__ = ("_column", "_counted", "_keys", "_versioned")

    def __init__(self, keys: KeyRing, column: Column[bytes]) -> None:
        """`column`: of a table. Raises TypeError if it is not `Sealed`."""
        if not isinstance(column.type, Sealed):
            raise TypeError(f"{column} is not a sealed column")
        self._keys = keys
        self._column = f"{column.table.name}.{column.name}"
        self._versioned = column.type.version is not None
        self._counted = column.type.counted

    def close(self, plaintext: bytes, *, row: str, user_id: str = "owner", version: int | None = None) -> SealedBytes:
        """Seal `plaintext` for the row whose id is `row`, in this version of it. Raises TypeError if the column has a
        version and none is given, or the other way round."""
        sealed = self._keys.seal(plaintext, self._column, user_id=user_id, row=row, version=self._number(version))
        if self._counted:
            self._keys.texts.add(user_id, len(sealed))
        return sealed

    def open(self, sealed: bytes, *, row: str, user_id: str = "owner", version: int | None = None) -> bytes:
        """Return the plaintext. Raises `runtime.crypto.Unsealable` for an unknown key, another row or version, or
        changed bytes."""
        return self._keys.unseal(sealed, self._column, user_id=user_id, row=row, version=self._number(version))

    def _number(self, version: int | None) -> int:
        if (version is not None) != self._versioned:
            raise TypeError(f"{self._column} has {'a' if self._versioned else 'no'} version")
        return version or 0

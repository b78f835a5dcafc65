"""Sealing: AES-256-GCM for columns that must not be readable in a copied database (NIST SP 800-38D)."""

from __future__ import annotations

import hashlib
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from runtime.errors import SymbiontError
from runtime.random_bytes import random_bytes

KEY_BYTES = 32
NONCE_BYTES = 12
_VERSION = b"\x01"


class SealedBytes(bytes):
    """`version (1) | key id (4) | nonce (12) | ciphertext and tag`: the only type that a Sealed column accepts."""

    __slots__ = ()


class Unsealable(SymbiontError):  # noqa: N818
    """Sealed bytes that this key cannot open, or that were moved to another row."""


class MasterKey:
    """The key that seals content columns. Its repr shows only the key id."""

    __slots__ = ("_cipher", "_key", "key_id")

    def __init__(self, key: bytes) -> None:
        """`key`: 32 bytes. Raises ValueError for any other length."""
        if len(key) != KEY_BYTES:
            raise ValueError(f"a master key has {KEY_BYTES} bytes, this one has {len(key)}")
        self._key = key
        self._cipher = AESGCM(key)
        self.key_id = hashlib.sha256(b"symbiont key id" + key).digest()[:4]

    def __repr__(self) -> str:
        return f"MasterKey({self.key_id.hex()})"

    @staticmethod
    def generate() -> bytes:
        """Return 32 new random bytes."""
        return os.urandom(KEY_BYTES)

    def derive(self, *purpose: str) -> bytes:
        """Return a key of 32 bytes for this purpose (HKDF, RFC 5869). It reveals nothing about this key or other
        derived keys."""
        info = "\x00".join(("symbiont", *purpose)).encode()
        return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=info).derive(self._key)

    def seal(self, plaintext: bytes, *, user_id: str, table: str, column: str, row: str) -> SealedBytes:
        """Encrypt `plaintext` for this row and column; the result cannot be opened for any other."""
        nonce = random_bytes(NONCE_BYTES)
        sealed = self._cipher.encrypt(nonce, plaintext, _place(user_id, table, column, row))
        return SealedBytes(_VERSION + self.key_id + nonce + sealed)

    def unseal(self, sealed: bytes, *, user_id: str, table: str, column: str, row: str) -> bytes:
        """Decrypt the result of `seal`. Raises `Unsealable` for another key, another row or column, or changed
        bytes."""
        if sealed[:1] != _VERSION or len(sealed) < 1 + 4 + NONCE_BYTES + 16:
            raise Unsealable(f"{table}.{column} of row {row} is not sealed data")
        if sealed[1:5] != self.key_id:
            raise Unsealable(
                f"{table}.{column} of row {row} was sealed with key {sealed[1:5].hex()}, not {self.key_id.hex()}",
                hint="use the master key that the database was created with",
            )
        try:
            return self._cipher.decrypt(sealed[5:17], sealed[17:], _place(user_id, table, column, row))
        except InvalidTag:
            raise Unsealable(f"{table}.{column} of row {row} was changed or moved from another row") from None


def _place(user_id: str, table: str, column: str, row: str) -> bytes:
    return "\x00".join((user_id, table, column, row)).encode()

"""Cryptography of sealed values: AES-256-GCM (NIST SP 800-38D) with keys that a master key wraps (RFC 3394)."""

from __future__ import annotations

import hashlib
import os
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap, aes_key_wrap

from runtime.errors import GiveUp, SymbiontError

KEY_BYTES: Final = 32
KEY_ID_BYTES: Final = 4
NONCE_BYTES: Final = 12
TAG_BYTES: Final = 16
PREFIX_BYTES: Final = 1 + KEY_ID_BYTES
HEADER_BYTES: Final = PREFIX_BYTES + NONCE_BYTES
FORMAT: Final = b"\x01"


class SealedBytes(bytes):
    """`format (1) | key id (4) | nonce (12) | ciphertext and tag`: the only type that a Sealed column accepts."""

    __slots__ = ()


class Unsealable(SymbiontError):  # noqa: N818
    """Sealed bytes that no key here opens, that were moved to another row, or that belong to another version of it."""


class KeyForgotten(GiveUp):
    """Nothing can be sealed for this user: the user was removed, and the key forgotten."""


def new_key() -> bytes:
    """Return 32 new random bytes."""
    return os.urandom(KEY_BYTES)


def derive_key(key: bytes, *purpose: str) -> bytes:
    """Return a key of 32 bytes for this purpose (HKDF, RFC 5869). It reveals nothing about `key` or other derive_key
    keys."""
    info = "\x00".join(("symbiont", *purpose)).encode()
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=info).derive(key)


def associated_data(user_id: str, column: str, row: str, version: int) -> bytes:
    """Return the data authenticated with a value: its user, `table.column`, the row, and the version of the row.

    The length tells where the user's id ends, because both it and the row's may contain any character.
    """
    return f"{column}\x00{version}\x00{len(user_id)}\x00{user_id}{row}".encode()


class MasterKey:
    """The key that wraps the keys of users. Its repr shows only the key id."""

    __slots__ = ("_key", "key_id")

    def __init__(self, key: bytes) -> None:
        """`key`: 32 bytes. Raises ValueError for any other length."""
        if len(key) != KEY_BYTES:
            raise ValueError(f"a master key has {KEY_BYTES} bytes, this one has {len(key)}")
        self._key = key
        self.key_id = hashlib.sha256(b"symbiont key id" + key).digest()[:KEY_ID_BYTES]

    def __repr__(self) -> str:
        return f"MasterKey({self.key_id.hex()})"

    def derive(self, *purpose: str) -> bytes:
        """Return a key of 32 bytes for this purpose, see `derived`."""
        return derive_key(self._key, *purpose)

    def wrap(self, key: bytes, holder: str, key_id: bytes) -> bytes:
        """Wrap the key of a holder (AES-KW, RFC 3394): 40 bytes, which open only as the key of this holder and id."""
        return aes_key_wrap(self.derive("wrap", key_id.hex(), holder), key)

    def unwrap(self, wrapped: bytes, holder: str, key_id: bytes) -> bytes:
        """Reverse `wrap`. Raises `Unsealable` for another key, another holder or changed bytes."""
        try:
            return aes_key_unwrap(self.derive("wrap", key_id.hex(), holder), wrapped)
        except (InvalidUnwrap, ValueError):
            raise Unsealable(
                f"the key {key_id.hex()} cannot be unwrapped with the master key {self.key_id.hex()}",
                hint="use the master key that it was wrapped with; see `symbi key status`",
            ) from None


def open_with(cipher: AESGCM, sealed: bytes, where: bytes, column: str, row: str) -> bytes:
    """Return the plaintext of a sealed value. Raises `Unsealable` if it is authenticated for another place."""
    try:
        return cipher.decrypt(sealed[PREFIX_BYTES:HEADER_BYTES], sealed[HEADER_BYTES:], where)
    except InvalidTag:
        raise Unsealable(
            f"{column} of row {row} was changed or moved from another row, or is an older value of this one"
        ) from None

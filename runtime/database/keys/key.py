"""One key: its row in the store, and the ciphers for each purpose while it is in use."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from runtime.crypto import FORMAT, MasterKey, derive_key

BLOCK: Final = 65_536
"""Number of seals that are recorded ahead, so that a key's row is written once for so many."""
ROTATED_AT: Final = 2**31
"""Seals after which a user's key is rotated: half of the bound."""
BOUND: Final = 2**32
"""Seals with random nonces under one key (NIST SP 800-38D section 8.3)."""


@dataclass(slots=True, eq=False, repr=False)
class Key:
    """A key of a holder, with the master key that wraps it. Times are Unix milliseconds.

    `seals`: the recorded number of its uses, with those recorded ahead; `left`: how many of these are unused, below
    zero if more were used than recorded.
    """

    master: MasterKey
    holder: str
    key_id: bytes
    generation: int
    wrapped: bytes
    seals: int
    created_at: int
    retired_at: int | None
    left: int = 0
    prefix: bytes = field(init=False)
    _secret: bytes | None = None
    _ciphers: dict[str, AESGCM] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.prefix = FORMAT + self.key_id

    def __repr__(self) -> str:
        return f"Key({self.holder!r}, {self.key_id.hex()})"

    @property
    def uses(self) -> int:
        """Return the number of its uses, at least approximately."""
        return self.seals - self.left

    def cipher(self, purpose: str) -> AESGCM | None:
        """Return the cipher for this purpose; None if it has to be made by `open` first."""
        return self._ciphers.get(purpose)

    def open(self, purpose: str) -> AESGCM:
        """Return the cipher for this purpose, unwrapping the key. Raises `Unsealable` for another master key."""
        cipher = self._ciphers[purpose] = AESGCM(derive_key(self.secret(), "seal", purpose))
        return cipher

    def secret(self) -> bytes:
        """Return the 32 bytes, unwrapped."""
        if self._secret is None:
            self._secret = self.master.unwrap(self.wrapped, self.holder, self.key_id)
        return self._secret

    @property
    def is_open(self) -> bool:
        """True if it is unwrapped in memory."""
        return self._secret is not None

    def close(self) -> None:
        """Drop what was unwrapped."""
        self._secret = None
        self._ciphers = {}

"""The text of a bearer token: `symbi_`, 43 random characters, and a checksum of 6.

The prefix lets secret scanners find a leaked one. The checksum tells a typing error, or a token of something else, from
one that is unknown, without asking the database; it protects nothing, the 256 random bits do.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import string
import zlib

PREFIX = "symbi_"

_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
_RANDOM = 43  # 62 ** 43 > 2 ** 256
_CHECKSUM = 6  # 62 ** 6 > 2 ** 32
_FORM = re.compile(rf"{PREFIX}([0-9A-Za-z]{{{_RANDOM}}})([0-9A-Za-z]{{{_CHECKSUM}}})", re.ASCII)


def make_token() -> str:
    """A new token, 55 characters of letters, digits and `_`."""
    random = "".join(secrets.choice(_ALPHABET) for _ in range(_RANDOM))
    return f"{PREFIX}{random}{_checksum(random)}"


def is_token(text: str) -> bool:
    """Whether `text` has the form of a token and its checksum is right."""
    match = _FORM.fullmatch(text)
    return match is not None and _checksum(match[1]) == match[2]


def token_hash(token: str) -> bytes:
    """SHA-256 of the whole token: all that is kept of it. It needs no salt and no stretching: nobody guesses 256
    random bits."""
    return hashlib.sha256(token.encode()).digest()


def _checksum(random: str) -> str:
    """CRC-32 of the random part in base 62, the most significant digit first."""
    rest = zlib.crc32(random.encode())
    digits = []
    for _ in range(_CHECKSUM):
        rest, digit = divmod(rest, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))

"""The text of a bearer token: `symbi_`, 43 random characters, and a checksum of 6.

The prefix lets secret scanners find leaked tokens. The checksum detects typing errors and foreign tokens without a
database query; it adds no security, which the 256 random bits provide.
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
    """Return a new token, 55 characters of letters, digits and `_`."""
    random = "".join(secrets.choice(_ALPHABET) for _ in range(_RANDOM))
    return f"{PREFIX}{random}{_checksum(random)}"


def is_token(text: str) -> bool:
    """True if `text` has the form of a token and a correct checksum."""
    match = _FORM.fullmatch(text)
    return match is not None and _checksum(match[1]) == match[2]


def token_hash(token: str) -> bytes:
    """Return SHA-256 of the whole token, the only form that is stored. No salt or stretching: 256 random bits cannot be
    guessed."""
    return hashlib.sha256(token.encode()).digest()


def _checksum(random: str) -> str:
    """Return CRC-32 of the random part in base 62, most significant digit first."""
    rest = zlib.crc32(random.encode())
    digits = []
    for _ in range(_CHECKSUM):
        rest, digit = divmod(rest, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))

"""References to secrets that are stored elsewhere: `secret://env/NAME`."""

from __future__ import annotations

import re

from dslc.blocks.values.invalid import Invalid
from dslc.blocks.values.names import is_name

SCHEMES = ("secret", "vault", "file")
"""Schemes of a reference to a secret."""
_REFERENCE = re.compile(rf"({'|'.join(SCHEMES)})://(.*)", re.DOTALL)


def is_reference(secret: str) -> bool:
    """True if the text refers to a secret that is stored elsewhere; any other text is the secret itself."""
    return _REFERENCE.match(secret) is not None


def backend_of(reference: str) -> str:
    """Name of a reference's backend: `vault` for `secret://vault/github`."""
    return valid_secret(reference).removeprefix("secret://").partition("/")[0]


def valid_secret(secret: str) -> str:
    """Return a literal unchanged, a reference as `secret://backend/path`; `vault://x` is short for `secret://vault/x`,
    and `file://x` for `secret://file/x`.

    Raises Invalid for a blank text and for a reference without backend or path; the message does not contain the text.
    """
    if not secret.strip():
        raise Invalid(
            "a secret must not be empty", hint='such as `secret "secret://env/GITHUB_SECRET"`', fault="bounds"
        )
    match = _REFERENCE.match(secret)
    if match is None:
        return secret
    scheme, rest = match.groups()
    whole = rest if scheme == "secret" else f"{scheme}/{rest}"
    backend, _, path = whole.partition("/")
    if not is_name(backend) or not path.strip() or re.search(r"[\x00-\x1f\x7f]", path):
        raise Invalid("not a reference to a secret", hint="such as `secret://env/GITHUB_SECRET`")
    return f"secret://{whole}"


def valid_env_value(text: str) -> str:
    """Return the value of an environment variable, or a reference to a secret that holds it as `valid_secret` does.

    Raises Invalid for a null character, and for an invalid reference.
    """
    at = text.find("\0")
    if at >= 0:
        raise Invalid("a null character is not allowed here", part=(at, at + 1))
    return valid_secret(text) if is_reference(text) else text

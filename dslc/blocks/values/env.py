"""Values of environment variables."""

from __future__ import annotations

from dslc.blocks.values.invalid import Invalid
from dslc.blocks.values.secret import is_reference, valid_secret


def valid_env_value(text: str) -> str:
    """Return the value of an environment variable, or a reference to a secret that holds it as `valid_secret` does.

    Raises Invalid for a null character, and for an invalid reference.
    """
    at = text.find("\0")
    if at >= 0:
        raise Invalid("a null character is not allowed here", part=(at, at + 1))
    return valid_secret(text) if is_reference(text) else text

"""The key that a service wants in the header of a call (RFC 6750 section 2.1), and which service cannot do without."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dslc.blocks.values.secret import is_reference
from runtime.errors import UsageError
from runtime.secrets.secret import Secret

OPENAI: Final = "https://api.openai.com/v1"


def is_openai(url: str) -> bool:
    """Whether this is OpenAI itself, which answers nobody without a key, and not another service with its API."""
    return url.rstrip("/") == OPENAI


def bearer(key: Secret | None, whose: str) -> dict[str, str]:
    """The header that shows `key`; none without one. `whose`: what it is the key of, such as `the model openai`.

    Raises UsageError for a key that no header may hold.
    """
    if key is None:
        return {}
    # A file or a variable often ends in a line's end.
    text = key.reveal().strip()
    if not text or any(byte <= 0x20 or byte >= 0x7F for byte in text):
        raise UsageError(f"the key of {whose}, {key.origin}, holds what no key may hold")
    return {"Authorization": f"Bearer {text.decode('ascii')}"}


def not_accepted(key: Secret | None, model: str) -> str:
    """What to do when a service does not accept `key`, or wants one (401, 403)."""
    if key is None:
        return "write `api_key` with a reference to a key that is good"
    return f"the key is that of {key.origin}: is it still good, and may it use {model}?"


def taken_key(options: Mapping[str, object], whose: str) -> tuple[dict[str, object], Secret | None]:
    """Options whose `api_key` is a resolved secret or one that the program says itself, as their model takes them, and
    the key. Raises UsageError for a reference that nobody could resolve."""
    given = dict(options)
    key = given.get("api_key")
    if isinstance(key, str):
        if is_reference(key):
            raise UsageError(f"the key of {whose} could not be had", hint="is the secret set?")
        key = Secret(key.encode(), "written in the program")
    if not isinstance(key, Secret):
        return given, None
    return {**given, "api_key": "a secret"}, key

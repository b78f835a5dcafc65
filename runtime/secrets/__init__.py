"""Secrets: references `secret://BACKEND/PATH`, resolved when a generation is built. Each backend is one file."""

from __future__ import annotations

from runtime.clock import rfc3339
from runtime.extension_table import table_of
from runtime.secrets.backend import RotatedSecret, SecretContext, Unresolved
from runtime.secrets.credential import CREDENTIAL
from runtime.secrets.env import ENV
from runtime.secrets.file import FILE
from runtime.secrets.generated import GENERATED
from runtime.secrets.keyring import KEYRING
from runtime.secrets.secret import Secret
from runtime.secrets.vault.backend import VAULT

SCHEME = "secret://"


BACKENDS = table_of("secret backend", (CREDENTIAL, ENV, FILE, GENERATED, KEYRING, VAULT))


def origin_of(text: str) -> str:
    """Return the source of the secret, or that `text` is a literal; safe to show."""
    if not text.startswith(SCHEME):
        return "written in the program"
    name, _, path = text.removeprefix(SCHEME).partition("/")
    return f"{name} {path}"


def backend_of(text: str) -> str | None:
    """Return the name of the backend that `text` refers to; None for a literal."""
    return text.removeprefix(SCHEME).partition("/")[0] if text.startswith(SCHEME) else None


async def resolve(text: str, context: SecretContext) -> Secret:
    """Return the secret that `text` refers to, or `text` itself if it is a literal.

    Raises `Unresolved`, whose message gives the reason and never contains a secret: unknown backend, no such secret, or
    a value that is empty or blank. A reference is never used as the secret itself.
    """
    if not text.startswith(SCHEME):
        return _nonblank_secret(text.encode(), origin_of(text))
    name, _, path = text.removeprefix(SCHEME).partition("/")
    backend = BACKENDS.get(name)
    if backend is None:
        raise Unresolved(f"unknown secret backend {name!r}; known are {', '.join(BACKENDS)}")
    if not path:
        raise Unresolved(f"{text} has no path after {name}")
    origin = origin_of(text)
    found = await backend.read(path, context)
    if not isinstance(found, RotatedSecret):
        return _nonblank_secret(found, origin)
    before = f"{origin} (the previous one, until {rfc3339(found.until)})"
    return _nonblank_secret(found.value, origin, Secret(found.previous, before, until=found.until))


def _nonblank_secret(value: bytes, origin: str, previous: Secret | None = None) -> Secret:
    if not value:
        raise Unresolved(f"the secret from {origin} is empty")
    if not value.strip():
        raise Unresolved(f"the secret from {origin} is blank")
    return Secret(value, origin, previous=previous)

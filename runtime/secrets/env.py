"""`secret://env/NAME`: an environment variable of the daemon."""

from __future__ import annotations

import os

from runtime.secrets.backend import SecretBackend, SecretContext, Unresolved


async def read(path: str, context: SecretContext) -> bytes:
    value = context.environ.get(path)
    if value is None:
        raise Unresolved(f"the environment variable {path} is not set")
    return os.fsencode(value)


ENV = SecretBackend(
    name="env",
    title="Environment variable",
    doc="`secret://env/NAME`: the value of the daemon's environment variable NAME, unchanged.",
    read=read,
)

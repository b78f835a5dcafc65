"""`secret://credential/NAME`: a credential that systemd passes to the service (systemd.exec(5), LoadCredential=)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from runtime.secrets.backend import SecretBackend, SecretContext, Unresolved
from runtime.secrets.file import read_file


async def read(path: str, context: SecretContext) -> bytes:
    folder = context.environ.get("CREDENTIALS_DIRECTORY")
    if not folder:
        raise Unresolved("CREDENTIALS_DIRECTORY is not set: only a service started by systemd has credentials")
    if "/" in path or path in {".", ".."}:
        raise Unresolved(f"{path} is not a valid name of a credential")
    return await asyncio.to_thread(read_file, Path(folder) / path)


CREDENTIAL = SecretBackend(
    name="credential",
    title="systemd credential",
    doc="`secret://credential/NAME`: the credential that `LoadCredential=NAME:…` of the service's unit passes.",
    read=read,
)

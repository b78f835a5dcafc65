"""`secret://vault/PATH`: HashiCorp Vault or OpenBao, KV version 1 and 2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runtime.secrets.backend import SecretBackend, SecretContext, Unresolved
from runtime.secrets.vault.login import VaultSettings
from runtime.secrets.vault.session import VaultSession

_SESSION = "vault"


def _session(context: SecretContext) -> VaultSession:
    session = context.sessions.get(_SESSION)
    if not isinstance(session, VaultSession):
        session = context.sessions[_SESSION] = VaultSession(context.clock)
    return session


async def read(path: str, context: SecretContext) -> bytes:
    settings = VaultSettings.read(context.environ)
    place, _, field = path.partition("#")
    place = place.strip("/")
    if not place or any(part in {"", ".", ".."} for part in place.split("/")):
        raise Unresolved(f"{path} is not a valid Vault path", hint="write secret://vault/PATH#FIELD")
    fields = await _session(context).read(place, settings)
    return _field(fields, field, f"{settings.mount}/{place}")


def _field(fields: Mapping[str, Any], field: str, place: str) -> bytes:
    if not field:
        if "value" not in fields and len(fields) != 1:
            raise Unresolved(f"{place} in Vault has {len(fields)} fields", hint="name one: secret://vault/PATH#FIELD")
        field = "value" if "value" in fields else next(iter(fields))
    value = fields.get(field)
    if field not in fields:
        raise Unresolved(f"{place} in Vault has no field {field!r}")
    if not isinstance(value, str):
        raise Unresolved(f"the field {field!r} of {place} in Vault is not text")
    return value.encode("utf-8", "surrogateescape")


async def keep(context: SecretContext) -> None:
    """Keep the token of the session valid."""
    await _session(context).keep()


VAULT = SecretBackend(
    name="vault",
    title="HashiCorp Vault",
    doc="`secret://vault/PATH` or `secret://vault/PATH#FIELD`: a KV secret, version 1 or 2, of the Vault or OpenBao at "
    "`VAULT_ADDR`, under the mount `SYMBIONT_VAULT_MOUNT` (default `secret`). Without FIELD: `value`, or the only one.",
    read=read,
    extra="vault",
    keep=keep,
)

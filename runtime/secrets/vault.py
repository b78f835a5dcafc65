"""`secret://vault/PATH`: HashiCorp Vault, KV version 2."""

from __future__ import annotations

import asyncio
from typing import Any

from runtime.secrets.backend import Backend, Context, Unresolved

TIMEOUT_SECONDS = 5
DEFAULT_MOUNT = "secret"


def _fetch(path: str, environ: dict[str, str]) -> bytes:
    try:
        import hvac
    except ImportError:
        raise Unresolved("Vault needs the extra `vault`", hint="pip install 'symbiont[vault]'") from None
    address = environ.get("VAULT_ADDR")
    if not address:
        raise Unresolved("VAULT_ADDR is not set, so there is no Vault to ask")
    secret, _, field = path.partition("#")
    client = hvac.Client(
        url=address,
        token=environ.get("VAULT_TOKEN"),
        namespace=environ.get("VAULT_NAMESPACE"),
        verify=environ.get("VAULT_CACERT", True),
        timeout=TIMEOUT_SECONDS,
    )
    mount = environ.get("SYMBIONT_VAULT_MOUNT", DEFAULT_MOUNT)
    try:
        answer = client.secrets.kv.v2.read_secret_version(secret, mount_point=mount, raise_on_deleted_version=True)
    except hvac.exceptions.VaultError as error:
        raise Unresolved(f"Vault has no {mount}/{secret} for us: {type(error).__name__}") from None
    except (OSError, ValueError) as error:  # requests' own errors, and a VAULT_CACERT that is not there
        raise Unresolved(f"Vault at {address} cannot be asked: {type(error).__name__}") from None
    finally:
        client.adapter.close()
    return _field(answer, field, f"{mount}/{secret}")


def _field(answer: Any, field: str, place: str) -> bytes:
    try:
        fields = dict(answer["data"]["data"])
    except (KeyError, TypeError, ValueError):
        raise Unresolved(f"Vault's answer for {place} is not a KV version 2 secret") from None
    if not field:
        if "value" not in fields and len(fields) != 1:
            raise Unresolved(
                f"{place} in Vault has {len(fields)} fields", hint="say which one: secret://vault/PATH#FIELD"
            )
        field = "value" if "value" in fields else next(iter(fields))
    value = fields.get(field)
    if not isinstance(value, str):
        raise Unresolved(f"{place} in Vault has no text in the field {field!r}")
    return value.encode()


async def read(path: str, context: Context) -> bytes:
    # hvac is synchronous; a slow Vault must not stop the receiver.
    return await asyncio.to_thread(_fetch, path, dict(context.environ))


VAULT = Backend(
    name="vault",
    title="HashiCorp Vault",
    doc="`secret://vault/PATH` or `secret://vault/PATH#FIELD`: a KV version 2 secret, asked for at `VAULT_ADDR` with "
    "`VAULT_TOKEN` under the mount `SYMBIONT_VAULT_MOUNT` (default `secret`). Without FIELD: `value`, or the only one.",
    read=read,
    extra="vault",
)

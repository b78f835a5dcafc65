"""Describes a provider's row for people: for `docs/providers.md` and `symbi webhook providers`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from dslc.blocks.setting import settings_of
from dslc.blocks.values.quantity import format_size
from runtime.webhooks.keys.public_key import ed25519_key
from runtime.webhooks.keys.shared_secret import base64_key, hex_key, text_key
from runtime.webhooks.providers.provider import Provider
from runtime.webhooks.request.field_source import BODY, header_name
from runtime.webhooks.schemes.basic import Basic
from runtime.webhooks.schemes.hmac import Hmac
from runtime.webhooks.schemes.jwt import Jwt
from runtime.webhooks.schemes.public_key import PublicKey
from runtime.webhooks.schemes.scheme import Scheme
from runtime.webhooks.schemes.secret_prefix import SecretPrefixScheme
from runtime.webhooks.schemes.token import BodyToken, Token

_TEXT = "the key is its text"
_KEYS: dict[Callable[[bytes], bytes], str] = {
    text_key: _TEXT,
    base64_key: "base64 of the key, with or without `whsec_`",
    hex_key: "hexadecimal of the key",
}


class ProviderDescription(NamedTuple):
    """The description of one row. Code is in backticks; None for properties that a row does not have.

    `proof`: the signature scheme. `places`: the headers with proof, time and id; empty if they are in the body.
    `secret`: the meaning of the sender's secret. `tolerance`: seconds that a signed time may differ from now. `event`:
    the source of the event. `told_apart_by`: the source of a delivery's identity. `body_limit`: the maximum size of a
    body. `handshake`: request and answer of a handshake. `options`: the names of options. `doc_url`: the sender's
    documentation.
    """

    name: str
    title: str
    doc: str
    doc_url: str | None
    proof: str
    places: tuple[str, ...]
    secret: str | None
    tolerance: float | None
    event: str | None
    told_apart_by: str | None
    body_limit: str
    handshake: str | None
    options: tuple[str, ...]


def describe(row: Provider) -> ProviderDescription:
    """Describe `row` as it is without options."""
    return ProviderDescription(
        name=row.name,
        title=row.title,
        doc=row.doc,
        doc_url=row.doc_url,
        proof=_proof(row.scheme),
        places=row.scheme.headers,
        secret=_secret(row),
        tolerance=row.scheme.tolerance,
        event=_event(row),
        told_apart_by=_identity(row),
        body_limit=format_size(row.body_limit),
        handshake=_handshake(row),
        options=() if row.options is None else tuple(each.name for each in settings_of(row.options)),
    )


def _proof(scheme: Scheme) -> str:
    match scheme:
        case Hmac():
            return f"HMAC-{scheme.algorithm.upper()}, {scheme.encoding}, of `{scheme.payload}`"
        case PublicKey():
            name = "Ed25519" if scheme.key is ed25519_key else "ECDSA P-256"
            return f"{name}, {scheme.encoding}, of `{scheme.payload}`"
        case Jwt():
            body = f", with the body's hash as `{scheme.body_claim}`" if scheme.body_claim else ""
            return f"JWT, {' or '.join(scheme.algorithms)}{body}"
        case Token():
            return "shared token; nothing is signed"
        case BodyToken():
            return f"shared token, `{scheme.field}`; nothing is signed"
        case Basic():
            return "name and password; nothing is signed"
        case SecretPrefixScheme():
            return "; or ".join(dict.fromkeys(map(_proof, scheme.schemes)))
    return scheme.words or ""


def _secret(row: Provider) -> str | None:
    if row.keyless:
        return None
    without = "" if row.keyless_by is None else f"; none with `{row.keyless_by}`"
    return (row.key_form or _meaning(row.scheme)) + without


def _meaning(scheme: Any) -> str:
    match scheme:
        case Hmac():
            other = ", or base64 of it" if scheme.key is text_key and scheme.other_key(b"QUJD") is not None else ""
            return _KEYS.get(scheme.key, _TEXT) + other
        case PublicKey():
            forms = "hex, base64, `whpk_…` or PEM" if scheme.key is ed25519_key else "PEM, or its base64"
            return f"the public key: {forms}"
        case Jwt():
            return _TEXT if scheme.algorithms[0].startswith("HS") else "the public key: PEM or JWK"
        case Token() | BodyToken():
            return "the token"
        case Basic():
            return "`name:password`"
        case SecretPrefixScheme():
            begins = [f"`{prefix.decode()}…`" for prefix, way in scheme.choices]
            return f"{', '.join(begins)}: {_meaning(scheme.choices[0][1])}; else {_meaning(scheme.otherwise)}"
    return _TEXT


def _source(source: str) -> str:
    if source == BODY:
        return "the body's SHA-256"
    if source.startswith("key:"):
        names = " and ".join(f"`{name}`" for name in source.removeprefix("key:").split(","))
        return f"the first key but {names}"
    return f"`{header_name(source) or source}`"


def _event(row: Provider) -> str | None:
    action = f", then `{row.action[0]}`" if row.action else ""
    if not row.event:
        return None if row.event_by is None else f"the header that `{row.event_by}` names"
    return ", else ".join(map(_source, row.event)) + action


def _identity(row: Provider) -> str | None:
    """Describe the sender's id and, with a signed time, the signature."""
    names = list(map(_source, row.delivery_id))
    if not names and row.options is not None and "id_header" in row.options.model_fields:
        names = ["the header that `id_header` names"]
    signature = "the signature" if row.scheme.tolerance is not None else ""
    return ", else ".join(names) + (", and " if names and signature else "") + signature or None


def _handshake(row: Provider) -> str | None:
    if row.handshake is None:
        return None
    return f"{row.handshake.words} ({'signed' if row.handshake.signed else 'unsigned'})"

"""Requests as a provider would send them: the inverse of verification."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel

from runtime.secrets.secret import Secret
from runtime.webhooks.provider import Provider
from runtime.webhooks.providers import find_provider
from runtime.webhooks.scheme import Draft
from runtime.webhooks.secret_key import secret_bytes
from runtime.webhooks.source import header_name


def sign(
    provider: str | Provider,
    secret: str | bytes | Secret,
    body: bytes,
    *,
    now: float,
    delivery_id: str,
    event: str | None = None,
    method: str = "POST",
    url: str | None = None,
    options: Mapping[str, object] | BaseModel | None = None,
) -> list[tuple[str, str]]:
    """The headers with which `provider` would send `body` at `now` (Unix seconds): content type, event, delivery id
    and signature. Where event and id stand in the body, they are the caller's to write.

    Raises ValueError as `prepare` does.
    """
    row = find_provider(provider).configured(options)
    draft = Draft(body, now, delivery_id, method, url)
    headers = {"content-type": ("Content-Type", row.content_type)}
    for sources, value in ((row.event, event), (row.delivery_id, delivery_id)):
        name = next((name for source in sources if (name := header_name(source))), None)
        if name is not None and value is not None:
            headers[name.lower()] = (name, value)
    for name, value in row.scheme.sign(secret_bytes(secret), draft):
        headers[name.lower()] = (name, value)
    return list(headers.values())

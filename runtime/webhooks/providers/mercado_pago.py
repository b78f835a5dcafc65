"""Mercado Pago."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runtime.webhooks.keys.shared_secret import text_key
from runtime.webhooks.providers.provider import Provider
from runtime.webhooks.request.json_path import compile_path
from runtime.webhooks.request.payload import decode_json
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.request.request import OK, WebhookRequest, query_parameters
from runtime.webhooks.schemes.hmac import Signing
from runtime.webhooks.schemes.scheme import Check, Match, Scheme, UnsignedRequest
from runtime.webhooks.schemes.signature_header import Fields
from runtime.webhooks.schemes.timestamp import check_fresh, read_time

_SIGNING = Signing("sha256", "hex")
_FORM = Fields("ts", "v1")
_SIGNATURE, _REQUEST = "x-signature", "x-request-id"
_DATA = compile_path("$.data.id")
_SECONDS_DIGITS = 11
# It repeats a notification for days, and does not say whether with a new time.
_TOLERANCE = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest(Scheme):
    """HMAC-SHA256 over `id:DATA;request-id:REQUEST;ts:TIME;`: the parameter `data.id` of the query, a header, and the
    time in the signature's header. A pair without a value is left out.

    The documentation signs the id in lower case, the vendor's library as it was sent; both are accepted. The time is in
    seconds or milliseconds. The body is not signed: it must name the signed id, and nothing else in it is proven.
    """

    signed = ("timestamp", "id")
    tolerance = _TOLERANCE
    headers = (_SIGNATURE, _REQUEST)
    words = (
        "HMAC-SHA256, hex, of `id:…;request-id:…;ts:…;`: `data.id` of the query, a header and the time; not the body"
    )

    def check(self, secrets: Sequence[bytes]) -> Check:
        keys = tuple(map(text_key, secrets))

        def verify(request: WebhookRequest, now: float) -> Match:
            header = request.headers.require(_SIGNATURE, "missing_signature")
            signatures, timestamp = _FORM.read(header)
            time = read_time(timestamp, "s" if len(timestamp) <= _SECONDS_DIGITS else "ms")
            identity = query_parameters(request.query).get("data.id", "")
            request_id = request.headers.one(_REQUEST, repeated="ambiguous_signature") or ""
            if ";" in identity + request_id:
                raise RefusedRequest("malformed_id")
            ids = dict.fromkeys((identity, identity.lower()))
            messages = [_manifest(each, request_id, timestamp) for each in ids]
            mac, index = _SIGNING.match(keys, messages, signatures)
            if identity and any(str(each).lower() != identity.lower() for each in _DATA(decode_json(request.body))):
                raise RefusedRequest("signature_mismatch")
            check_fresh(time, now, _TOLERANCE)
            return Match(mac, int(time), index)

        return verify

    def sign(self, secret: bytes, unsigned: UnsignedRequest) -> list[tuple[str, str]]:
        timestamp = str(int(unsigned.now))
        text = _SIGNING.write(secret, _manifest("", unsigned.delivery_id, timestamp))
        return [(_REQUEST, unsigned.delivery_id), (_SIGNATURE, _FORM.write(text, timestamp))]


def _manifest(identity: str, request_id: str, timestamp: str) -> bytes:
    pairs = (("id", identity), ("request-id", request_id), ("ts", timestamp))
    return "".join(f"{name}:{value};" for name, value in pairs if value).encode("utf-8", "surrogatepass")


MERCADO_PAGO = Provider(
    name="mercado-pago",
    title="Mercado Pago",
    doc="Notifications of Mercado Pago. It signs the id of the object, not the body: fetch the object before you act.",
    doc_url="https://www.mercadopago.com.mx/developers/en/docs/order/online-payments/notifications",
    scheme=Manifest(),
    event=("$.action", "$.type"),
    delivery_id=("$.id",),
    answer=OK,
)

"""The table of senders in `docs/providers.md`: `python -m runtime.webhooks.overview` writes it anew."""

from __future__ import annotations

from pathlib import Path

from runtime.webhooks.basic_scheme import Basic
from runtime.webhooks.by_secret import BySecret
from runtime.webhooks.hmac_scheme import Hmac
from runtime.webhooks.jwt_scheme import Jwt
from runtime.webhooks.provider import Provider
from runtime.webhooks.providers import PROVIDERS
from runtime.webhooks.public_key_scheme import PublicKey
from runtime.webhooks.public_keys import ed25519_key
from runtime.webhooks.scheme import Scheme
from runtime.webhooks.source import header_name
from runtime.webhooks.token_scheme import BodyToken, Token

PAGE = Path(__file__).parents[2] / "docs" / "providers.md"
BEGIN, END = "<!-- the table: written by python -m runtime.webhooks.overview -->", "<!-- the table ends -->"

_HEAD = (
    "| provider | sender | proof | in | time | told apart by | handshake |",
    "| --- | --- | --- | --- | --- | --- | --- |",
)


def table() -> str:
    """Every row of the table of providers, in the order of their names, as Markdown."""
    return "\n".join((*_HEAD, *(_line(PROVIDERS[name]) for name in sorted(PROVIDERS))))


def proof(scheme: Scheme) -> str:
    """In words how a request is proved."""
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
        case BySecret():
            ways = (*(each for _, each in scheme.choices), scheme.otherwise)
            return "; or ".join(dict.fromkeys(map(proof, ways)))
    return str(getattr(scheme, "words", f"{', '.join(f'`{part}`' for part in scheme.signed)}, by the sender's key"))


def places(scheme: Scheme) -> tuple[str, ...]:
    """The headers that hold proof, time and id; none when they stand in the body."""
    if isinstance(scheme, BySecret):
        return tuple(dict.fromkeys(name for each in (*(s for _, s in scheme.choices), scheme.otherwise)
                                   for name in places(each)))  # fmt: skip
    if isinstance(scheme, Basic):
        return ("Authorization",)
    named: tuple[str, ...] = getattr(scheme, "headers", ())
    fields = ("header", "timestamp_header", "id_header")
    return named or tuple(name for each in fields if (name := getattr(scheme, each, None)))


def _line(row: Provider) -> str:
    sender = row.title if row.doc_url is None else f"[{row.title}]({row.doc_url})"
    tolerance = row.scheme.tolerance
    cells = (
        f"`{row.name}`",
        sender,
        proof(row.scheme),
        ", ".join(f"`{name}`" for name in places(row.scheme)) or "the body",
        "—" if tolerance is None else f"{tolerance:g} s",
        _identity(row),
        _handshake(row),
    )
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def _identity(row: Provider) -> str:
    """What two deliveries are told apart by: the sender's id, and with a signed time the signature too."""
    names = [f"`{header_name(source) or source}`" for source in row.delivery_id]
    signature = ["the signature"] if row.scheme.tolerance is not None else []
    return ", else ".join(names) + (", and " if names and signature else "") + "".join(signature) or "nothing"


def _handshake(row: Provider) -> str:
    if row.handshake is None:
        return "—"
    return f"{', '.join(row.handshake.methods)}, {'signed' if row.handshake.signed else 'unsigned'}"


def render(page: str) -> str:
    """`page` with the table as it must be."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

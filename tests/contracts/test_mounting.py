"""`dslc check` succeeds if and only if the daemon mounts the webhook: valid and invalid values of every option of every
provider. The values come from the catalog, so that added rows and options are tried too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from pydantic import ValidationError

from dslc.blocks.variant import Variant
from dslc.blocks.webhook import Webhook
from dslc.catalog import Catalog, CatalogEntry
from dslc.compiler import analyse
from dslc.diagnostics.diagnostic import is_error
from dslc.source import Source
from runtime.secrets.secret import Secret
from runtime.webhooks.routing.route import build_route
from tests.cases import each_case
from tests.contracts.options import BESIDE, URL, Given, example, option_sets, settings
from tests.contracts.provider_cases import SECRETS
from tests.lanes import LONG, repeated
from tests.runtime.daemon.running import running, write_program

CATALOG = Catalog.installed()
ROWS = CATALOG.rows("provider")
EXAMPLES = Path(__file__).parents[2] / "examples"


class Program(NamedTuple):
    """A webhook: its text, and the block that it declares."""

    text: str
    block: Mapping[str, Any]


def _programs(row: CatalogEntry, beside: int) -> Iterator[Program]:
    """Return webhooks of that provider, with every set of options, and without the optional settings. `beside`: of an
    option, the values that are tried beside every other option."""
    secret = 'secret "secret://env/S"'
    for options in option_sets(row, beside):
        keyless = row.keyless or any(given.name == row.keyless_by for given in options)
        yield _program(row, options, *([] if keyless else [(secret, {"secret": ("secret://env/S",)})]))
    first = next(option_sets(row)) if not any(option.required for option in row.options) else None
    for more in (
        [(secret, {"secret": ("secret://env/S",)})],
        [("insecure_allow_unverified true", {"insecure_allow_unverified": True})],
        [],
    ):
        if first is not None:
            yield _program(row, first, *more, address=False)


def _program(
    row: CatalogEntry, options: Sequence[Given], *more: tuple[str, Mapping[str, Any]], address: bool = True
) -> Program:
    written = " ".join(given.written for given in options)
    lines = ['path "/w"', f"provider {row.name}" + (f" {{ {written} }}" if options else "")]
    block: dict[str, Any] = {"name": "w", "path": "/w"}
    block["provider"] = {"name": row.name, "options": {given.name: given.value for given in options}}
    if address and "url" in (row.signed or ()):
        more = (*more, (f'public_url "{URL}"', {"public_url": URL}))
    for line, setting in more:
        lines.append(line)
        block |= setting
    return Program("webhook w {\n    " + "\n    ".join(lines) + "\n}\n", block)


def _public(key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey) -> str:
    encoding, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(encoding, form).decode()


_CURVES = (ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1())
KEYS = [
    Secret(text.encode(), origin="a test")
    for text in (
        "x" * 64,
        *(pair[0] for pair in SECRETS if not pair[0].startswith("-----")),
        _public(rsa.generate_private_key(65537, 2048)),
        _public(ed25519.Ed25519PrivateKey.generate()),
        *(_public(ec.generate_private_key(curve)) for curve in _CURVES),
    )
]


def green(text: str) -> bool:
    """Return whether `dslc check` succeeds."""
    return not any(map(is_error, analyse([Source("w.symbiont", text)], CATALOG, build=False).diagnostics))


def mounted(block: Mapping[str, Any]) -> bool:
    """Return whether the daemon mounts it with any of the secrets, which a check does not know."""
    try:
        webhook = Webhook.model_validate({**block, "provider": Variant(**block["provider"])})
    except ValidationError:
        return False
    return next(_mounting(webhook), None) is not None


def _mounting(webhook: Webhook) -> Iterator[int]:
    """Return the number of keys with which it is mounted; 0 if it needs none."""
    options = {
        name: KEYS[0] if isinstance(value, str) and value.startswith("secret://") else value
        for name, value in webhook.provider.options.items()
    }
    keys = [[key] for key in KEYS] if webhook.secret else [[]]
    for number, secrets in enumerate(keys):
        if build_route(webhook, origin="", secrets=secrets, problem=None, options=options).route is not None:
            yield number


@repeated("beside", 2, BESIDE)
@each_case("name", list(ROWS))
def test_what_a_check_calls_right_is_mounted_and_nothing_else(name: str, beside: int) -> None:
    programs = {program.text: program for program in _programs(ROWS[name], beside)}.values()
    verdicts = {program.text: (green(program.text), mounted(program.block)) for program in programs}
    assert [text for text, (checked, taken) in verdicts.items() if checked != taken] == []
    assert (True, True) in verdicts.values()
    assert (False, False) in verdicts.values()


def test_what_a_check_calls_right_of_a_block_is_mounted_and_nothing_else() -> None:
    whole = {"path": 'path "/w"', "provider": "provider github", "secret": 'secret "secret://env/S"'}
    block = {"name": "w", "path": "/w", "provider": {"name": "github"}, "secret": ("secret://env/S",)}
    several = {setting.name for setting in CATALOG.kinds["webhook"] if setting.many and setting.type == "group"}
    verdicts = {}
    for given in settings(setting for setting in CATALOG.kinds["webhook"] if setting.type != "secret"):
        text = f"webhook w {{ {' '.join({**whole, given.name: given.written}.values())} }}\n"
        value = (given.value,) if given.name in several else given.value
        verdicts[text] = (green(text), mounted({**block, given.name: value}))
    assert [text for text, (checked, taken) in verdicts.items() if checked != taken] == []
    assert (True, True) in verdicts.values()
    assert (False, False) in verdicts.values()


def test_every_webhook_of_the_examples_is_mounted() -> None:
    done = analyse([Source(file.name, file.read_bytes()) for file in sorted(EXAMPLES.glob("*.symbiont"))], CATALOG)
    assert not any(map(is_error, done.diagnostics))
    assert done.program.webhooks
    assert [name for name, block in done.program.webhooks.items() if next(_mounting(block), None) is None] == []


@LONG
def test_a_daemon_mounts_a_webhook_of_every_provider_that_a_check_calls_right(tmp_path: Path) -> None:
    blocks = []
    for name, row in ROWS.items():
        options = [example(option) for option in row.options if option.required]
        text = _program(row, options, *([] if row.keyless else [('secret "secret://env/S"', {})])).text
        webhook = analyse([Source("w", text)], CATALOG).program.webhooks["w"]
        text = text.replace("webhook w", f"webhook {name}").replace('"/w"', f'"/{name}"')
        blocks.append(text.replace("env/S", f"env/S{next(_mounting(webhook))}"))
    assert green("".join(blocks))
    write_program(tmp_path, "".join(blocks))
    secrets: dict[str, Any] = {f"S{number}": key.reveal().decode() for number, key in enumerate(KEYS)}
    with running(tmp_path, "program", **secrets) as daemon:
        answers = {name: daemon.request("PUT", f"/{name}").status for name in ROWS}
    assert {name: status for name, status in answers.items() if status != 405} == {}

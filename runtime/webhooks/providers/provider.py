"""The type of webhook providers: one row of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from dslc.blocks.setting import settings_of
from dslc.blocks.values.secret import is_reference, valid_secret
from runtime.secrets.secret import Secret
from runtime.webhooks.handshakes import Handshake
from runtime.webhooks.request.content import Compression
from runtime.webhooks.request.field_source import header_name
from runtime.webhooks.request.payload import Decoder, Payload, decode_json
from runtime.webhooks.request.request import StaticAnswer
from runtime.webhooks.schemes.scheme import Scheme

MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A sender of webhooks, entirely as data.

    `name`: its name in a program. `title`: its name for people. `doc`: one sentence. `doc_url`: the sender's
    documentation of its signature.

    `event`, `delivery_id`: sources, `header:NAME` or a JSONPath; the first that is present counts. A delivery id is the
    same for every attempt at one delivery. `action`: sources of the action, if the event only names the object: `event`
    of a webhook may then be `EVENT.ACTION`. `event_by`: the option that names the event's header.

    `methods`: the HTTP methods of deliveries. `content_type`: the sender's usual one. `answer`: the answer to an
    accepted delivery if it cannot be 202 with its id. `sample_event`: the event of a test delivery, if the event is in
    a header and none is given.

    `body_limit`: the maximum bytes of a body, unless the webhook sets its own: the largest that the sender's
    documentation allows, up to 25 MiB, with the address of the page beside it. The default is that of nginx, behind
    which most receivers are, so a sender that names no limit seldom exceeds it.

    `decoder`: the reading of a body. That of a row with options reads deliveries that a webhook has accepted, whatever
    its options are.

    `compression`: which bytes of a compressed body the sender signs; None for a sender that compresses nothing.

    `options`: the model of the row's own settings, frozen; `configure(row, options)` returns this row with the options
    applied, so all other code sees plain rows. `signed_by`: the option with the template of the signed text. `extra`:
    the package extra that must be installed.

    `keyless`: the sender's keys are fetched from where it publishes them, so a webhook has no secret. `keyless_by`: the
    option that causes this. `key_form`: the meaning of the sender's secret, for people, if its scheme has a key of its
    own.
    """

    name: str
    title: str
    doc: str
    scheme: Scheme
    event: tuple[str, ...] = ()
    event_by: str | None = None
    action: tuple[str, ...] = ()
    sample_event: str | None = None
    delivery_id: tuple[str, ...] = ()
    doc_url: str | None = None
    methods: tuple[str, ...] = ("POST",)
    content_type: str = "application/json"
    body_limit: int = MIB
    compression: Compression | None = None
    decoder: Decoder = decode_json
    handshake: Handshake | None = None
    answer: StaticAnswer | None = None
    options: type[BaseModel] | None = None
    configure: Callable[[Provider, Any], Provider] | None = None
    extra: str | None = None
    signed_by: str | None = None
    keyless: bool = False
    keyless_by: str | None = None
    key_form: str | None = None

    @property
    def signed(self) -> tuple[str, ...]:
        """The parts of a request that its signature covers."""
        return self.scheme.signed

    def headers(self, event: str | None, delivery_id: str) -> list[tuple[str, str]]:
        """Return the content type, and event and delivery id if the sender puts them into headers."""
        headers = [("Content-Type", self.content_type)]
        for sources, value in ((self.event, event), (self.delivery_id, delivery_id)):
            name = next((name for source in sources if (name := header_name(source))), None)
            if name is not None and value is not None:
                headers.append((name, value))
        return headers

    def references(self, options: Mapping[str, object]) -> dict[str, str]:
        """Return the given options that are secrets, by name, each as a reference or as the secret itself."""
        settings = () if self.options is None else settings_of(self.options)
        return {
            each.name: valid_secret(text)
            for each in settings
            if each.type == "secret" and isinstance(text := options.get(each.name), str)
        }

    def payload(self, body: bytes, content_type: str | None) -> Payload:
        """Return `body` as this provider's payload, decoded on demand. `content_type`: the header's value."""
        return Payload(self.decoder, body, content_type)

    def with_options(self, options: Mapping[str, object] | BaseModel | None) -> Provider:
        """Return the row with `options` applied, or its defaults; the result has no options.

        An option that is a secret is given as a `Secret`, or as its own text; never as a reference. Raises ValueError,
        in one line, naming each wrong option.
        """
        if self.options is None or self.configure is None:
            if options:
                raise ValueError(f"provider {self.name} has no options")
            return self
        return replace(self.configure(self, self._parse_options(options, self.options)), options=None, configure=None)

    def _parse_options(self, options: Mapping[str, object] | BaseModel | None, model: type[BaseModel]) -> BaseModel:
        if isinstance(options, model):
            return options
        given = dict(options or {})
        secrets = {name: value for name, value in given.items() if isinstance(value, Secret)}
        for name, text in self.references(given).items():
            if is_reference(text):
                raise ValueError(f"provider {self.name}: {name} refers to a secret that was not resolved")
        # The model checks the text of a program; a secret's value may be any text.
        given |= dict.fromkeys(secrets, "a secret")
        read = self._validate(given, model)
        return read.model_copy(
            update={name: secret.reveal().decode("utf-8", "surrogateescape") for name, secret in secrets.items()}
        )

    def _validate(self, given: dict[str, object], model: type[BaseModel]) -> BaseModel:
        try:
            return model.model_validate(given)
        except ValidationError as error:
            # Not pydantic's own text: it has several lines and contains values.
            wrong = (
                ": ".join((*map(str, each["loc"]), each["msg"].removeprefix("Value error, ")))
                for each in error.errors()
            )
            raise ValueError(f"provider {self.name}: {'; '.join(wrong)}") from None

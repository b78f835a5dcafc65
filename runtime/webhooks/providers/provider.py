"""What a webhook provider is: one row of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from dslc.blocks.setting import settings_of
from dslc.blocks.values.secret import is_reference, valid_secret
from runtime.secrets.secret import Secret
from runtime.webhooks.handshakes.handshake import Handshake
from runtime.webhooks.request.field_source import header_name
from runtime.webhooks.request.payload import Decoder, Payload, decode_json
from runtime.webhooks.request.static_response import Answer
from runtime.webhooks.schemes.scheme import Scheme


class SummaryField(NamedTuple):
    """One thing worth remembering of a payload: a label and the JSONPaths to try, first found first."""

    label: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A sender of webhooks, wholly as data.

    `name`: how a file names it. `title`: how a person does. `doc`: one sentence. `doc_url`: where the
    sender says how it signs.
    `event`, `delivery_id`: sources, `header:NAME` or a JSONPath, first found first. A delivery id is the same for
    every attempt at one delivery. `action`: sources of what happened, where the event only says to what: `event` of a
    webhook may then be `EVENT.ACTION`. `event_by`: the option that names the event's header.
    `methods`: what deliveries come by. `content_type`: what the sender usually sends.
    `answer`: what an accepted delivery is answered when it can't be 202 with its id.
    `sample_event`: what a test delivery says it is, where the event stands in a header and nobody names one.
    `options`: the model of the row's own settings, frozen; `configure(row, options)` gives the row they make of this
    one, so that all else sees plain rows. `signed_by`: the option whose template says what is signed. `extra`: the
    package extra that it needs installed.
    `keyless`: the sender's keys are fetched from where it publishes them, so that a webhook has no secret.
    `keyless_by`: the option that makes it so. `key_form`: what the sender's secret means, in words, where its scheme
    has a key of its own.
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
    decoder: Decoder = decode_json
    handshake: Handshake | None = None
    answer: Answer | None = None
    summary_fields: tuple[SummaryField, ...] = ()
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
        """Content type, and event and delivery id where the sender puts them into headers."""
        headers = [("Content-Type", self.content_type)]
        for sources, value in ((self.event, event), (self.delivery_id, delivery_id)):
            name = next((name for source in sources if (name := header_name(source))), None)
            if name is not None and value is not None:
                headers.append((name, value))
        return headers

    def references(self, options: Mapping[str, object]) -> dict[str, str]:
        """The options that are secrets and given, by name, each as a reference or as the secret itself."""
        settings = () if self.options is None else settings_of(self.options)
        return {
            each.name: valid_secret(text)
            for each in settings
            if each.type == "secret" and isinstance(text := options.get(each.name), str)
        }

    def payload(self, body: bytes, content_type: str | None) -> Payload:
        """`body` as this provider's payload, decoded when asked for. `content_type`: the header's value."""
        return Payload(self.decoder, body, content_type)

    def configured(self, options: Mapping[str, object] | BaseModel | None) -> Provider:
        """The row with `options` applied, or its defaults: a row that has no options any more and stays as it is.

        An option that is a secret is given as a `Secret`, or as its own text; never as a reference. Raises ValueError,
        in one line, naming each option that is wrong.
        """
        if self.options is None or self.configure is None:
            if options:
                raise ValueError(f"provider {self.name} has no options")
            return self
        return replace(self.configure(self, self._read(options, self.options)), options=None, configure=None)

    def _read(self, options: Mapping[str, object] | BaseModel | None, model: type[BaseModel]) -> BaseModel:
        if isinstance(options, model):
            return options
        given = dict(options or {})
        secrets = {name: value for name, value in given.items() if isinstance(value, Secret)}
        for name, text in self.references(given).items():
            if is_reference(text):
                raise ValueError(f"provider {self.name}: {name} refers to a secret that was not resolved")
        # The model checks what a program says; a secret's value may be any text.
        given |= dict.fromkeys(secrets, "a secret")
        read = self._valid(given, model)
        return read.model_copy(
            update={name: secret.reveal().decode("utf-8", "surrogateescape") for name, secret in secrets.items()}
        )

    def _valid(self, given: dict[str, object], model: type[BaseModel]) -> BaseModel:
        try:
            return model.model_validate(given)
        except ValidationError as error:
            # Not pydantic's own text: it has several lines, and shows values.
            wrong = (
                ": ".join((*map(str, each["loc"]), each["msg"].removeprefix("Value error, ")))
                for each in error.errors()
            )
            raise ValueError(f"provider {self.name}: {'; '.join(wrong)}") from None

"""Services used by both embeddings and language models: OpenAI, others with its API, and Ollama."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel

from dslc.blocks.values.secret import is_reference
from runtime.errors import UsageError
from runtime.outbound.http import CallFailed
from runtime.secrets.secret import Secret

OPENAI: Final = "https://api.openai.com/v1"


class Refusal(NamedTuple):
    """The report of a permanent failure. `no_model`: the service does not have the model."""

    message: str
    hint: str | None
    no_model: bool = False


class OpenAIService:
    """A service with OpenAI's API, and the key for it."""

    def __init__(
        self, url: str, key: Secret | None, whose: str, extra: Mapping[str, str | Secret] | None = None
    ) -> None:
        """`whose`: the caller for messages, such as `the model openai`. `extra`: further headers; one of them may
        replace the key's. Raises UsageError for a key or a header with invalid characters."""
        self._parts = urlsplit(url)
        self.host = self._parts.netloc
        self._key = key
        self._whose = whose
        self._extra = dict(extra or {})
        self.headers()

    def url(self, path: str) -> str:
        """Return the address of an endpoint."""
        return self._parts._replace(path=f"{self._parts.path.rstrip('/')}/{path}").geturl()

    def headers(self) -> dict[str, str]:
        """Return the header with the key (RFC 6750 section 2.1), if there is a key, and the further ones."""
        extra = {name: self._header(name, value) for name, value in self._extra.items()}
        if self._key is None or "authorization" in map(str.lower, extra):
            return extra
        return {"Authorization": f"Bearer {key_text(self._key, self._whose)}", **extra}

    def _header(self, name: str, value: str | Secret) -> str:
        if isinstance(value, str) and is_reference(value):
            raise UsageError(
                f"the header {name} of {self._whose} could not be resolved", hint="check that the secret is set"
            )
        text = value.encode() if isinstance(value, str) else value.reveal()
        if any(byte != 0x09 and (byte < 0x20 or byte >= 0x7F) for byte in text.strip()):
            raise UsageError(f"the header {name} of {self._whose} contains invalid characters")
        return text.strip().decode("ascii")

    def refusal(self, failure: CallFailed, model: str) -> Refusal:
        """Return the reason why a call for `model` failed, and how to fix it."""
        match failure.status:
            case 401 | 403:
                hint = "write `api_key` with a reference to a valid key"
                if self._key is not None:
                    hint = f"the key is from {self._key.origin}: check that it is valid and may use {model}"
                message = f"{self.host} does not accept the key of {self._whose} (it answered {failure.status})"
                return Refusal(message, hint)
            case 404:
                detail = f": {failure.detail}" if failure.detail else ""
                message = f"{self.host} has no model {model}, or no such address{detail}"
                return Refusal(message, "check `model` and `url`", no_model=True)
        return Refusal(f"{self._whose} is refused: {failure}", failure.hint)


class OllamaService:
    """An Ollama."""

    def __init__(self, url: str, whose: str) -> None:
        self.host = urlsplit(url).netloc
        self._api = f"{url.rstrip('/')}/api"
        self._whose = whose

    def url(self, path: str) -> str:
        """Return the address of an endpoint under `/api`."""
        return f"{self._api}/{path}"

    def refusal(self, failure: CallFailed, model: str, path: str) -> Refusal:
        """Return the reason why a call of `path` for `model` failed, and how to fix it."""
        if failure.status == 404 and isinstance(failure.answer, dict):
            return self.no_model(model)
        if failure.status == 404:
            hint = "check that it is Ollama, 0.3 or newer, and that the URL does not end in `/api`"
            return Refusal(f"{self.host} has no /api/{path}", hint)
        return Refusal(f"{self._whose} is refused: {failure}", failure.hint)

    def no_model(self, model: str) -> Refusal:
        """Return that this Ollama does not have `model`."""
        return Refusal(f"Ollama at {self.host} has no model {model}", f"ollama pull {model}", no_model=True)


def key_of(option: object, whose: str) -> Secret | None:
    """Return the key in an option: a resolved secret, or text that is written in the program; None without one. Raises
    UsageError for an unresolved reference."""
    if isinstance(option, str):
        if is_reference(option):
            raise UsageError(f"the key of {whose} could not be resolved", hint="check that the secret is set")
        return Secret(option.encode(), "written in the program")
    return option if isinstance(option, Secret) else None


def key_text(key: Secret, whose: str) -> str:
    """Return a key as it is sent. Raises UsageError for characters that are invalid in a key."""
    # A file or a variable often ends with a line end.
    text = key.reveal().strip()
    if not text or any(byte <= 0x20 or byte >= 0x7F for byte in text):
        raise UsageError(f"the key of {whose}, {key.origin}, contains characters that are invalid in a key")
    return text.decode("ascii")


def is_openai(url: str) -> bool:
    """Return True for OpenAI itself, which always requires a key; False for another service with its API."""
    return url.rstrip("/") == OPENAI


class _Options(Protocol):
    @property
    def url(self) -> str: ...

    @property
    def api_key(self) -> str | None: ...


Options = TypeVar("Options", bound=_Options)


def options_and_key(kind: type[Options], options: Mapping[str, object], whose: str) -> tuple[Options, Secret | None]:
    """Validate options with an `api_key` that is a resolved secret or written in the program; return them and the key.

    Raises UsageError for an unresolved reference, and for OpenAI without a key.
    """
    secret = key_of(options.get("api_key"), whose)
    assert issubclass(kind, BaseModel)
    read = kind.model_validate(dict(options) if secret is None else {**options, "api_key": "a secret"})
    if read.api_key is None and is_openai(read.url):
        raise UsageError(f"{whose} needs a key for OpenAI", hint='such as `api_key "secret://env/OPENAI_API_KEY"`')
    return read, secret

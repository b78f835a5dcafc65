"""Address and login of Vault, read from the environment each time, because tokens in files change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from runtime.secrets.backend import Unresolved
from runtime.secrets.file import read_file

DEFAULT_MOUNT = "secret"
SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount/token"


class Login(Protocol):
    """A way to get a token. Equal logins get equal tokens."""

    @property
    def renews(self) -> bool:
        """True if a new login gives a new token."""

    def path(self) -> str | None:
        """Return the login path under `/v1/`; None if there is a token already."""

    def proof(self) -> dict[str, str]:
        """Return the body of the login request. Raises `Unresolved`, without the values that it read."""


@dataclass(frozen=True, slots=True)
class Token:
    """A configured token."""

    text: str = field(repr=False)
    renews = False

    def path(self) -> None:
        return None

    def proof(self) -> dict[str, str]:
        return {}


@dataclass(frozen=True, slots=True)
class AppRole:
    """Role id and secret id; each may be in a file, which is read at each login."""

    mount: str
    role_id: Path | str = field(repr=False)
    secret_id: Path | str | None = field(repr=False)
    renews = True

    def path(self) -> str:
        return f"auth/{self.mount}/login"

    def proof(self) -> dict[str, str]:
        given = {"role_id": _content(self.role_id)}
        return given if self.secret_id is None else {**given, "secret_id": _content(self.secret_id)}


@dataclass(frozen=True, slots=True)
class Kubernetes:
    """The service account's token, in a file that Kubernetes renews."""

    mount: str
    role: str
    jwt: Path
    renews = True

    def path(self) -> str:
        return f"auth/{self.mount}/login"

    def proof(self) -> dict[str, str]:
        return {"role": self.role, "jwt": _content(self.jwt)}


@dataclass(frozen=True, slots=True)
class VaultSettings:
    """Address and login of Vault. `display_address`: the address without user and password."""

    address: str = field(repr=False)
    display_address: str
    namespace: str | None
    verify: str | bool
    certificate: tuple[str, str] | str | None
    mount: str
    kv: int | None
    login: Login

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> VaultSettings:
        """Read the settings from `environ`. Raises `Unresolved` naming the variable that is missing or wrong."""
        address = environ.get("VAULT_ADDR")
        if not address:
            raise Unresolved("VAULT_ADDR is not set")
        kv = environ.get("SYMBIONT_VAULT_KV") or None
        if kv not in {None, "1", "2"}:
            raise Unresolved("SYMBIONT_VAULT_KV is neither 1 nor 2", hint="unset it to detect the version")
        certificate, key = environ.get("VAULT_CLIENT_CERT"), environ.get("VAULT_CLIENT_KEY")
        return cls(
            address=address,
            display_address=_display_address(address),
            namespace=environ.get("VAULT_NAMESPACE") or None,
            verify=environ.get("VAULT_CACERT") or environ.get("VAULT_CAPATH") or True,
            certificate=(certificate, key) if certificate and key else certificate or None,
            mount=environ.get("SYMBIONT_VAULT_MOUNT", "").strip("/") or DEFAULT_MOUNT,
            kv=None if kv is None else int(kv),
            login=_login(environ),
        )


def _display_address(address: str) -> str:
    try:
        parts = urlsplit(address)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        host = ""
    if not host or parts.scheme not in {"http", "https"}:
        raise Unresolved("VAULT_ADDR is not a URL", hint="such as https://vault.example.com:8200")
    return f"{parts.scheme}://{host}"


def _login(environ: Mapping[str, str]) -> Login:
    """Return the first of: a token, AppRole, Kubernetes, the file that `vault login` writes."""
    text = environ.get("VAULT_TOKEN", "").strip()
    if text:
        return Token(text)
    role_id = _value_or_file(environ, "SYMBIONT_VAULT_ROLE_ID")
    if role_id is not None:
        mount = environ.get("SYMBIONT_VAULT_AUTH_MOUNT", "").strip("/") or "approle"
        return AppRole(mount, role_id, _value_or_file(environ, "SYMBIONT_VAULT_SECRET_ID"))
    role = environ.get("SYMBIONT_VAULT_KUBERNETES_ROLE")
    if role:
        mount = environ.get("SYMBIONT_VAULT_AUTH_MOUNT", "").strip("/") or "kubernetes"
        return Kubernetes(mount, role, Path(environ.get("SYMBIONT_VAULT_KUBERNETES_JWT") or SERVICE_ACCOUNT))
    return Token(_token_file(environ))


def _value_or_file(environ: Mapping[str, str], name: str) -> Path | str | None:
    """Return the variable's value, or the path of the file that the variable `NAME_FILE` names."""
    file = environ.get(f"{name}_FILE")
    return Path(file) if file else environ.get(name, "").strip() or None


def _token_file(environ: Mapping[str, str]) -> str:
    named, home = environ.get("SYMBIONT_VAULT_TOKEN_FILE"), environ.get("HOME")
    file = Path(named) if named else Path(home) / ".vault-token" if home else None
    if file is None or (not named and not file.exists()):
        raise Unresolved(
            "there is no token for Vault",
            hint="set VAULT_TOKEN, SYMBIONT_VAULT_ROLE_ID or SYMBIONT_VAULT_KUBERNETES_ROLE, or `vault login`",
        )
    return _content(file)


def _content(value: Path | str) -> str:
    """Return a value's text, or the content of its file. Raises `Unresolved`."""
    if isinstance(value, str):
        return value
    try:
        text = read_file(value).decode().strip()
    except UnicodeDecodeError:
        raise Unresolved(f"{value} is not text") from None
    if not text:
        raise Unresolved(f"{value} is empty")
    return text


def value_at(answer: Any, *keys: str) -> Any:
    """Return the value at `keys` in a response of Vault; None if there is none."""
    for key in keys:
        if not isinstance(answer, dict):
            return None
        answer = answer.get(key)
    return answer

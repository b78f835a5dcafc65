"""One conversation with Vault over `hvac`: requests that end, and a line for each way in which they fail."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import quote

from runtime import extras
from runtime.secrets.backend import BackendUnavailable, Unresolved
from runtime.secrets.vault.login import VaultSettings, value_at

REQUEST_SECONDS = 5
"""For the connection, and for each piece of an answer; the whole is bounded by who calls."""


class Denied(Unresolved):
    """Vault does not take the token, or does not let it do this: another token may."""


class Unreachable(BackendUnavailable):
    """Vault does not answer, or cannot just now."""


class Grant(NamedTuple):
    """A token. `seconds`: how long it is good; None: as long as Vault says nothing else, or unknown."""

    token: str
    seconds: float | None
    renewable: bool


class VaultClient:
    """Asks the Vault of `settings`. Every method blocks, and raises `Unresolved`, never with a secret in it."""

    def __init__(self, settings: VaultSettings) -> None:
        try:
            import hvac
        except ImportError:
            raise Unresolved("Vault needs the extra `vault`", hint=extras.install("vault")) from None
        self._settings = settings

        def client() -> Any:
            return hvac.Client(
                url=settings.address,
                token="",
                namespace=settings.namespace,
                verify=settings.verify,
                cert=settings.certificate,
                timeout=REQUEST_SECONDS,
                # Whoever is redirected to would be sent the token.
                allow_redirects=False,
            )

        self._client = client()
        # For logins: one with a token that has ended would be refused for it, and what others ask meanwhile needs it.
        self._without_token = client()

    def close(self) -> None:
        """Let go of the connections."""
        self._client.adapter.close()
        self._without_token.adapter.close()

    def log_in(self) -> Grant:
        """A token by the settings' login, which this client shows from now on."""
        login = self._settings.login
        where = login.path()
        if where is None:
            self._client.token = text = getattr(login, "text", "")
            return self._given(text)
        answer = self._request("POST", where, f"log in at {where.removesuffix('/login')}", login.proof(), token=False)
        token = value_at(answer, "auth", "client_token")
        if not isinstance(token, str) or not token:
            raise Unresolved(f"Vault's answer to the login at {where} holds no token")
        self._client.token = token
        return _grant(token, answer, "auth", "lease_duration")

    def renew(self) -> Grant:
        """The token, good for longer."""
        answer = self._request("POST", "auth/token/renew-self", "renew the token", {})
        return _grant(self._client.token, answer, "auth", "lease_duration")

    def read(self, path: str, version: int) -> dict[str, Any]:
        """The fields of the secret at `path` under the settings' mount, of KV `version`."""
        mount = self._settings.mount
        place = f"{mount}/{path}"
        where = f"{mount}/data/{path}" if version == 2 else place
        answer = self._request("GET", where, f"read {where}")
        fields = value_at(answer, "data", "data") if version == 2 else value_at(answer, "data")
        if version == 2 and fields is None and value_at(answer, "data", "metadata"):
            raise Unresolved(f"Vault's newest version of {place} was deleted")
        if not isinstance(fields, dict):
            raise Unresolved(
                f"Vault's answer for {place} is no KV version {version} secret",
                hint="does SYMBIONT_VAULT_KV say the mount's version?",
            )
        return fields

    def version(self) -> int:
        """Which version of KV the mount is, as `vault kv` asks for it: by what the user interface may know."""
        mount = self._settings.mount
        try:
            answer = self._request("GET", f"sys/internal/ui/mounts/{mount}", f"look at the mount {mount}")
        except Denied as error:
            # Vault says the same of a mount that is not there.
            raise Denied(str(error), hint=f"is there a mount {mount}? SYMBIONT_VAULT_MOUNT names another one") from None
        if value_at(answer, "data", "type") not in {"kv", "generic"}:
            raise Unresolved(f"the mount {mount} of Vault is no KV store")
        return 2 if value_at(answer, "data", "options", "version") == "2" else 1

    def _given(self, text: str) -> Grant:
        """A token that was given to us, and what Vault says of it. One that may not even ask is used as it is."""
        try:
            answer = self._request("GET", "auth/token/lookup-self", "look at the token")
        except Denied:
            return Grant(text, None, False)
        return _grant(text, answer, "data", "ttl")

    def _request(self, method: str, path: str, what: str, body: object = None, *, token: bool = True) -> Any:
        """The answer's JSON; for a version that was deleted, what came with the 404."""
        from hvac.exceptions import VaultError

        adapter = (self._client if token else self._without_token).adapter
        given = {} if body is None else {"json": body}
        try:
            answer = adapter.request(method.lower(), f"/v1/{quote(path)}", **given)
        except VaultError as error:
            deleted = value_at(error.json, "data", "metadata", "deletion_time")
            if deleted or value_at(error.json, "data", "metadata", "destroyed"):
                return error.json
            raise self._refused(error, what, path) from None
        except (OSError, ValueError) as error:  # requests' own errors, and a VAULT_CACERT that is not there
            raise self._failed(error) from None
        if not isinstance(answer, dict):
            status = getattr(answer, "status_code", 0)
            told = f"redirects (status {status})" if 300 <= status < 400 else f"gave no JSON (status {status})"
            raise Unresolved(
                f"{self._settings.shown} {told}: is it a Vault?", hint="VAULT_ADDR names the active server itself"
            )
        return answer

    def _refused(self, error: Any, what: str, path: str) -> Unresolved:
        """Vault's own text is not shown: it may be of several lines, and say anything."""
        shown, told = self._settings.shown, " ".join(map(str, error.errors or [])).lower()
        if path.endswith("/login") and type(error).__name__ in {"Forbidden", "Unauthorized", "InvalidRequest"}:
            return Denied(f"Vault at {shown} refuses to {what}: the role, its id or its proof is not valid")
        match type(error).__name__:
            case "Forbidden" if "invalid token" in told:
                return Denied(f"Vault at {shown} does not take the token: it ended, was revoked or never was")
            case "Forbidden" | "Unauthorized":
                return Denied(f"Vault at {shown} does not allow us to {what}", hint=f"its policy needs {path}")
            case "InvalidPath":
                return Unresolved(f"Vault at {shown} has nothing to {what}")
            case "VaultDown" if "sealed" in told:
                return Unreachable(f"Vault at {shown} is sealed")
            case "VaultDown" | "VaultNotInitialized" | "BadGateway":
                return Unreachable(f"Vault at {shown} is not ready ({type(error).__name__})")
            case "RateLimitExceeded":
                return Unreachable(f"Vault at {shown} asks for fewer requests")
        return Unresolved(f"Vault at {shown} failed to {what} ({type(error).__name__})")

    def _failed(self, error: Exception) -> Unresolved:
        from requests import exceptions

        shown = self._settings.shown
        match error:
            case exceptions.SSLError():
                return Unreachable(f"the certificate of Vault at {shown} is not trusted", hint="set VAULT_CACERT")
            case exceptions.Timeout():
                return Unreachable(f"Vault at {shown} did not answer in {REQUEST_SECONDS} s")
            case exceptions.ConnectionError():
                return Unreachable(f"Vault at {shown} cannot be reached")
            case exceptions.InvalidHeader() | UnicodeError():
                return Unresolved("the token for Vault holds what no token can")
            case exceptions.RequestException():
                return Unresolved(f"Vault at {shown} cannot be asked: {type(error).__name__}")
        # requests says so of a path in `verify` or `cert` with a plain OSError.
        return Unresolved(
            f"Vault at {shown} cannot be asked: a file for TLS is not there or not right",
            hint="see VAULT_CACERT, VAULT_CAPATH, VAULT_CLIENT_CERT and VAULT_CLIENT_KEY",
        )


def _grant(token: str, answer: object, part: str, seconds: str) -> Grant:
    left = value_at(answer, part, seconds)
    good = float(left) if isinstance(left, int) and left > 0 else None
    return Grant(token, good, value_at(answer, part, "renewable") is True)

"""Requests to Vault over `hvac`, with timeouts and a one-line error for each kind of failure."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import quote

from runtime import extras
from runtime.secrets.backend import BackendUnavailable, Unresolved
from runtime.secrets.vault.login import VaultSettings, value_at

REQUEST_SECONDS = 5
"""Seconds for the connection, and for each part of a response; the caller bounds the whole request."""


class Denied(Unresolved):
    """Vault refuses the token, or the request with this token; another token may work."""


class Unreachable(BackendUnavailable):
    """Vault does not respond, or is not ready."""


class Grant(NamedTuple):
    """A token. `seconds`: its lifetime; None: unlimited or unknown."""

    token: str
    seconds: float | None
    renewable: bool


class VaultClient:
    """A client for the Vault of `settings`. Every method blocks, and raises `Unresolved`, never with a secret in it."""

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
                # A redirect would send the token to another server.
                allow_redirects=False,
            )

        self._client = client()
        # For logins: Vault refuses a login that carries an expired token, and concurrent requests need the token.
        self._without_token = client()

    def close(self) -> None:
        """Close the connections."""
        self._client.adapter.close()
        self._without_token.adapter.close()

    def log_in(self) -> Grant:
        """Log in as the settings say, and use the token from now on."""
        login = self._settings.login
        where = login.path()
        if where is None:
            self._client.token = text = getattr(login, "text", "")
            return self._configured_grant(text)
        answer = self._request("POST", where, f"log in at {where.removesuffix('/login')}", login.proof(), token=False)
        token = value_at(answer, "auth", "client_token")
        if not isinstance(token, str) or not token:
            raise Unresolved(f"Vault's response to the login at {where} contains no token")
        self._client.token = token
        return _grant(token, answer, "auth", "lease_duration")

    def renew(self) -> Grant:
        """Extend the lifetime of the token."""
        answer = self._request("POST", "auth/token/renew-self", "renew the token", {})
        return _grant(self._client.token, answer, "auth", "lease_duration")

    def read(self, path: str, version: int) -> dict[str, Any]:
        """Return the fields of the secret at `path` under the settings' mount, of KV `version`."""
        mount = self._settings.mount
        place = f"{mount}/{path}"
        where = f"{mount}/data/{path}" if version == 2 else place
        answer = self._request("GET", where, f"read {where}")
        fields = value_at(answer, "data", "data") if version == 2 else value_at(answer, "data")
        if version == 2 and fields is None and value_at(answer, "data", "metadata"):
            raise Unresolved(f"the newest version of {place} in Vault was deleted")
        if not isinstance(fields, dict):
            raise Unresolved(
                f"Vault's response for {place} is not a secret of KV version {version}",
                hint="check that SYMBIONT_VAULT_KV is the version of the mount",
            )
        return fields

    def version(self) -> int:
        """Return the KV version of the mount, by the request that `vault kv` uses (permitted to the user interface)."""
        mount = self._settings.mount
        try:
            answer = self._request("GET", f"sys/internal/ui/mounts/{mount}", f"read the mount {mount}")
        except Denied as error:
            # Vault responds the same for a mount that does not exist.
            raise Denied(
                str(error), hint=f"check that the mount {mount} exists; SYMBIONT_VAULT_MOUNT sets another one"
            ) from None
        if value_at(answer, "data", "type") not in {"kv", "generic"}:
            raise Unresolved(f"the mount {mount} of Vault is not a KV store")
        return 2 if value_at(answer, "data", "options", "version") == "2" else 1

    def _configured_grant(self, text: str) -> Grant:
        """Return the configured token with its lifetime, if Vault permits the lookup."""
        try:
            answer = self._request("GET", "auth/token/lookup-self", "look up the token")
        except Denied:
            return Grant(text, None, False)
        return _grant(text, answer, "data", "ttl")

    def _request(self, method: str, path: str, what: str, body: object = None, *, token: bool = True) -> Any:
        """Return the response's JSON; for a deleted version, the JSON of the 404."""
        from hvac.exceptions import VaultError

        adapter = (self._client if token else self._without_token).adapter
        given = {} if body is None else {"json": body}
        try:
            answer = adapter.request(method.lower(), f"/v1/{quote(path)}", **given)
        except VaultError as error:
            deleted = value_at(error.json, "data", "metadata", "deletion_time")
            if deleted or value_at(error.json, "data", "metadata", "destroyed"):
                return error.json
            raise self._vault_error(error, what, path) from None
        except (OSError, ValueError) as error:  # errors of requests, and a missing VAULT_CACERT
            raise self._request_error(error) from None
        if not isinstance(answer, dict):
            status = getattr(answer, "status_code", 0)
            reply = f"redirects (status {status})" if 300 <= status < 400 else f"returned no JSON (status {status})"
            raise Unresolved(
                f"{self._settings.display_address} {reply}: check that it is a Vault",
                hint="VAULT_ADDR must name the active server itself",
            )
        return answer

    def _vault_error(self, error: Any, what: str, path: str) -> Unresolved:
        """Translate an error. Vault's own text is not shown: it may have several lines and any content."""
        shown, text = self._settings.display_address, " ".join(map(str, error.errors or [])).lower()
        if path.endswith("/login") and type(error).__name__ in {"Forbidden", "Unauthorized", "InvalidRequest"}:
            return Denied(f"Vault at {shown} refuses to {what}: the role, its id or its proof is not valid")
        match type(error).__name__:
            case "Forbidden" if "invalid token" in text:
                return Denied(f"Vault at {shown} refuses the token: it has expired, was revoked or is unknown")
            case "Forbidden" | "Unauthorized":
                return Denied(f"Vault at {shown} does not permit to {what}", hint=f"the policy must allow {path}")
            case "InvalidPath":
                return Unresolved(f"Vault at {shown} cannot {what}: there is nothing at this path")
            case "VaultDown" if "sealed" in text:
                return Unreachable(f"Vault at {shown} is sealed")
            case "VaultDown" | "VaultNotInitialized" | "BadGateway":
                return Unreachable(f"Vault at {shown} is not ready ({type(error).__name__})")
            case "RateLimitExceeded":
                return Unreachable(f"Vault at {shown} limits the rate of requests")
        return Unresolved(f"Vault at {shown} failed to {what} ({type(error).__name__})")

    def _request_error(self, error: Exception) -> Unresolved:
        from requests import exceptions

        shown = self._settings.display_address
        match error:
            case exceptions.SSLError():
                return Unreachable(f"the certificate of Vault at {shown} is not trusted", hint="set VAULT_CACERT")
            case exceptions.Timeout():
                return Unreachable(f"Vault at {shown} did not respond in {REQUEST_SECONDS} s")
            case exceptions.ConnectionError():
                return Unreachable(f"Vault at {shown} cannot be reached")
            case exceptions.InvalidHeader() | UnicodeError():
                return Unresolved("the token for Vault contains invalid characters")
            case exceptions.RequestException():
                return Unresolved(f"the request to Vault at {shown} failed: {type(error).__name__}")
        # requests raises a plain OSError for a wrong path in `verify` or `cert`.
        return Unresolved(
            f"the request to Vault at {shown} failed: a file for TLS is missing or invalid",
            hint="see VAULT_CACERT, VAULT_CAPATH, VAULT_CLIENT_CERT and VAULT_CLIENT_KEY",
        )


def _grant(token: str, answer: object, part: str, seconds: str) -> Grant:
    left = value_at(answer, part, seconds)
    good = float(left) if isinstance(left, int) and left > 0 else None
    return Grant(token, good, value_at(answer, part, "renewable") is True)

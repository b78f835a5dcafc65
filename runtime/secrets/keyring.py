"""`secret://keyring/SERVICE/USER`: the operating system's keyring, through the package `keyring`."""

from __future__ import annotations

from runtime import extras
from runtime.secrets.backend import BackendUnavailable, SecretBackend, SecretContext, Unresolved
from runtime.secrets.blocking_call import in_thread

TIMEOUT_SECONDS = 10.0
"""Seconds to wait: a locked keyring may show a dialog that is not visible."""


async def read(path: str, context: SecretContext) -> bytes:
    service, _, user = path.rpartition("/")
    if not service or not user:
        raise Unresolved(f"{path} does not name a user", hint="write secret://keyring/SERVICE/USER")
    try:
        value = await in_thread(lambda: _get_password(service, user), TIMEOUT_SECONDS)
    except TimeoutError:
        raise BackendUnavailable(
            f"the keyring did not respond in {TIMEOUT_SECONDS:.0f} s", hint="it may be locked and wait for its password"
        ) from None
    if value is None:
        raise Unresolved(f"the keyring has no password of {user} at {service}", hint=f"keyring set {service} {user}")
    return value.encode("utf-8", "surrogateescape")


def _get_password(service: str, user: str) -> str | None:
    try:
        import keyring
        from keyring.errors import KeyringLocked, NoKeyringError
    except ImportError:
        raise Unresolved("a keyring needs the extra `keyring`", hint=extras.install("keyring")) from None
    try:
        return keyring.get_password(service, user)
    except NoKeyringError:
        raise Unresolved(
            "there is no keyring", hint="a service has none unless one is started for it; see docs/secrets.md"
        ) from None
    except KeyringLocked:
        raise Unresolved("the keyring is locked", hint="unlock it, then send SIGHUP to the daemon") from None
    except Exception as error:
        # A keyring backend may raise any error of its own library, with any text.
        raise Unresolved(f"the keyring failed: {type(error).__name__}") from None


KEYRING = SecretBackend(
    name="keyring",
    title="Keyring",
    doc="`secret://keyring/SERVICE/USER`: the password of USER at SERVICE in the operating system's "
    "keyring (Secret Service, macOS Keychain), as stored by `keyring set SERVICE USER`.",
    read=read,
    extra="keyring",
)

"""The Vault session: one token for all reads, renewed in time while the daemon runs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

import structlog

from runtime.clock import Clock
from runtime.secrets.backend import Unresolved
from runtime.secrets.blocking_call import in_thread
from runtime.secrets.vault.client import Denied, Grant, Unreachable, VaultClient
from runtime.secrets.vault.login import VaultSettings

log = structlog.get_logger("symbiont.secrets")

T = TypeVar("T")

SECONDS = 15.0
"""Maximum seconds of one request."""

AT_ONCE = 8
"""Maximum number of concurrent requests."""

FRESH_SECONDS = 10.0
"""Age in seconds below which a denied token is not replaced: another token would be denied too."""

LOOK_SECONDS = 1.0
PAUSES = (5.0, 30.0, 300.0)
"""Seconds between attempts to renew a token or to log in again."""


class VaultSession:
    """The session with one Vault. `read` logs in if necessary; `keep` renews the token."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._settings: VaultSettings | None = None
        self._client: VaultClient | None = None
        self._grant: Grant | None = None
        self._granted_at = 0.0
        self._renew_at: float | None = None
        self._tries = 0
        self._versions: dict[str, int] = {}
        self._logging_in = asyncio.Lock()
        self._asking = asyncio.Semaphore(AT_ONCE)
        self._failures = 0
        self._failure: Unreachable | None = None
        self._logged_in = asyncio.Event()

    async def read(self, path: str, settings: VaultSettings) -> dict[str, Any]:
        """Return the fields of the secret at `path`. Raises `Unresolved`."""
        failures = self._failures
        async with self._asking:
            self._give_up_after(failures)
            try:
                return await self._read(path, settings, failures)
            except Unreachable as error:
                self._failure, self._failures = error, self._failures + 1
                raise

    def _give_up_after(self, failures: int) -> None:
        """Raise if Vault became unreachable while this call waited, so that thousands of calls do not each wait for a
        timeout."""
        if self._failure is not None and self._failures != failures:
            raise Unreachable(str(self._failure), hint=self._failure.hint)

    async def _read(self, path: str, settings: VaultSettings, failures: int) -> dict[str, Any]:
        client, grant = await self._client_with_token(settings, failures)
        try:
            return await self._fields(client, path, settings)
        except Denied:
            # Unless another read has logged in meanwhile: then the former token was denied.
            fresh = self._grant is grant and self._clock.monotonic() - self._granted_at < FRESH_SECONDS
            if fresh or not settings.login.renews:
                raise
            # The token may have been revoked; a denial with a new one is final.
            client, _ = await self._client_with_token(settings, failures, instead_of=grant)
            return await self._fields(client, path, settings)

    async def _fields(self, client: VaultClient, path: str, settings: VaultSettings) -> dict[str, Any]:
        version = settings.kv or self._versions.get(settings.mount)
        if version is None:
            version = self._versions[settings.mount] = await self._ask(settings, client.version)
        try:
            return await self._ask(settings, lambda: client.read(path, version))
        except (Denied, Unreachable):
            raise
        except Unresolved:
            # The version of the mount may have changed: the next read detects it.
            self._versions.pop(settings.mount, None)
            raise

    async def _client_with_token(
        self, settings: VaultSettings, failures: int, *, instead_of: Grant | None = None
    ) -> tuple[VaultClient, Grant]:
        """Return a client with a token; log in if the settings changed or the token is `instead_of`."""
        async with self._logging_in:
            self._give_up_after(failures)
            ends = self._grant_end()
            ended = ends is not None and self._clock.monotonic() >= ends
            if self._client is None or self._grant is None or settings != self._settings:
                await self._open(settings)
            elif self._grant is instead_of or (ended and settings.login.renews):
                self._use_grant(await self._ask(settings, self._client.log_in))
            assert self._client is not None
            assert self._grant is not None
            return self._client, self._grant

    async def _open(self, settings: VaultSettings) -> None:
        # In a thread, because the first import of hvac is slow.
        client = await self._ask(settings, lambda: VaultClient(settings))
        grant = await self._ask(settings, client.log_in)
        if self._client is not None:
            self._client.close()
        self._client, self._settings, self._versions = client, settings, {}
        self._use_grant(grant)
        self._logged_in.set()

    def _use_grant(self, grant: Grant) -> None:
        self._grant, self._granted_at, self._tries = grant, self._clock.monotonic(), 0
        self._renew_at = None if grant.seconds is None else self._granted_at + grant.seconds * 2 / 3

    def _grant_end(self) -> float | None:
        """Return the end of the token's lifetime by the monotonic clock; None if unknown."""
        seconds = None if self._grant is None else self._grant.seconds
        return None if seconds is None else self._granted_at + seconds

    async def keep(self) -> None:
        """Renew the token after two thirds of its lifetime, or log in again, until cancelled."""
        await self._logged_in.wait()
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            if self._renewal_is_due():
                async with self._logging_in:
                    # A read may have logged in while this waited for the lock.
                    if self._renewal_is_due():
                        await self._renew()

    def _renewal_is_due(self) -> bool:
        return self._renew_at is not None and self._clock.monotonic() >= self._renew_at

    async def _renew(self) -> None:
        client, settings, grant = self._client, self._settings, self._grant
        if client is None or settings is None or grant is None:
            return
        left = (self._grant_end() or 0.0) - self._clock.monotonic()
        failure: Unresolved | None = None
        if grant.renewable:
            try:
                renewed = await self._ask(settings, client.renew)
                if renewed.seconds is None or renewed.seconds > left + 1:
                    self._use_grant(renewed)
                    return
                failure = Unresolved("its maximum lifetime is over")
            except Unresolved as error:
                failure = error
        if settings.login.renews:
            try:
                self._use_grant(await self._ask(settings, client.log_in))
            except Unresolved as error:
                failure = error
            else:
                return
        self._postpone_renewal(failure)

    def _postpone_renewal(self, failure: Unresolved | None) -> None:
        """Log the first failure, and schedule the next attempt."""
        if self._tries == 0:
            log.warning(
                "vault_token_not_renewed",
                reason=failure.line() if failure else "it is not renewable",
                seconds_left=max(0, round((self._grant_end() or 0.0) - self._clock.monotonic())),
            )
        pause = PAUSES[min(self._tries, len(PAUSES) - 1)]
        self._tries += 1
        self._renew_at = self._clock.monotonic() + pause

    async def _ask(self, settings: VaultSettings, question: Callable[[], T]) -> T:
        try:
            return await in_thread(question, SECONDS)
        except TimeoutError:
            raise Unreachable(f"Vault at {settings.display_address} did not respond in {SECONDS:.0f} s") from None

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            with contextlib.suppress(OSError):
                self._client.close()

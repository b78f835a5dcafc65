"""Address of a server, with the secrets that it is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

LEAST_MASKED: Final = 6
"""Minimum characters of a secret that is replaced in what a server sends: shorter ones are in every text."""
LEAST_MASKED_LINE: Final = 20
"""Minimum characters of a line of a secret that is replaced, such as one of a key: lines may be sent apart."""


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The way to reach a server: a command with its environment and folder, or a URL with headers. The environment, the
    headers and `secrets` (their texts) contain secrets."""

    name: str
    command: tuple[str, ...] | None
    env: Mapping[str, str] = field(repr=False)
    folder: Path
    url: str | None
    headers: Mapping[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)

    def masked(self, text: str) -> str:
        """Return a text of the server without the secrets that it was given."""
        lines = (line.strip() for secret in self.secrets for line in secret.splitlines())
        masked = {secret for secret in self.secrets if len(secret) >= LEAST_MASKED}
        masked |= {line for line in lines if len(line) >= LEAST_MASKED_LINE}
        # One of them may be a part of another.
        for each in sorted(masked, key=len, reverse=True):
            text = text.replace(each, "[secret]")
        return text

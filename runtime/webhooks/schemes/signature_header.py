"""The forms in which a header holds signatures, and sometimes their timestamp."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from runtime.webhooks.request.refusal import Refused

# Senders that rotate their keys send two; more than this is somebody trying.
_SIGNATURES = 16


class SignatureHeader(Protocol):
    """One form. `timed`: whether it holds the timestamp too."""

    @property
    def timed(self) -> bool: ...

    def read(self, value: str) -> tuple[list[str], str]:
        """The signatures, one at least, as text, and the timestamp's text (empty unless `timed`). Raises `Refused`."""

    def write(self, signature: str, timestamp: str) -> str:
        """The header's value: the inverse of `read`."""


@dataclass(frozen=True, slots=True)
class Prefixed:
    """One signature behind a fixed prefix: `sha256=…`, or bare. The prefix is compared as it stands, case and all."""

    prefix: str = ""

    @property
    def timed(self) -> bool:
        return False

    def read(self, value: str) -> tuple[list[str], str]:
        if not value.startswith(self.prefix):
            raise Refused("malformed_signature")
        return [value[len(self.prefix) :]], ""

    def write(self, signature: str, timestamp: str) -> str:
        return self.prefix + signature


BARE = Prefixed()
"""The signature and nothing else."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A list of signatures, each behind `prefix`: `v1,… v1,…`, `v1=…,v1=…`.

    What has another prefix is another version and ignored, so that it is never taken for this one.
    """

    prefix: str
    separator: str

    @property
    def timed(self) -> bool:
        return False

    def read(self, value: str) -> tuple[list[str], str]:
        found = [each[len(self.prefix) :] for each in value.split(self.separator) if each.startswith(self.prefix)]
        if not 0 < len(found) <= _SIGNATURES:
            raise Refused("malformed_signature")
        return found, ""

    def write(self, signature: str, timestamp: str) -> str:
        return self.prefix + signature


@dataclass(frozen=True, slots=True)
class Fields:
    """A list of `key=value`: `t=1700000000,v1=…,v1=…,v0=…`.

    `signature` may come several times; `timestamp` must come once; other keys are ignored, so that an older version
    of the signature is never taken for this one. Nothing is trimmed: a key with white space about it is refused.
    """

    timestamp: str = "t"
    signature: str = "v1"
    separator: str = ","

    @property
    def timed(self) -> bool:
        return True

    def read(self, value: str) -> tuple[list[str], str]:
        signatures: list[str] = []
        timestamps: list[str] = []
        for each in value.split(self.separator):
            key, equals, text = each.partition("=")
            if not equals or key != key.strip():
                raise Refused("malformed_signature")
            if key == self.signature:
                signatures.append(text)
            elif key == self.timestamp:
                timestamps.append(text)
        if not 0 < len(signatures) <= _SIGNATURES:
            raise Refused("malformed_signature")
        if not timestamps:
            raise Refused("missing_timestamp")
        if len(timestamps) > 1:
            raise Refused("ambiguous_signature")
        return signatures, timestamps[0]

    def write(self, signature: str, timestamp: str) -> str:
        return f"{self.timestamp}={timestamp}{self.separator}{self.signature}={signature}"

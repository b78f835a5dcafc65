"""Formats of a header with signatures, and sometimes their timestamp."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from runtime.webhooks.request.refusal import RefusedRequest

# Senders that rotate their keys send two; more than this is an attack.
_SIGNATURES = 16


@dataclass(frozen=True, slots=True)
class PrefixHeader:
    """One signature after a fixed prefix, `sha256=…`, or bare. The prefix is case-sensitive."""

    prefix: str = ""
    timed: ClassVar[bool] = False

    def read(self, value: str) -> tuple[list[str], str]:
        """Return the signatures, at least one, as text, and the timestamp's text (empty unless `timed`). Raises
        `RefusedRequest`."""
        if not value.startswith(self.prefix):
            raise RefusedRequest("malformed_signature")
        return [value[len(self.prefix) :]], ""

    def write(self, signature: str, timestamp: str) -> str:
        """Return the header's value: the inverse of `read`."""
        return self.prefix + signature


BARE = PrefixHeader()
"""The signature without a prefix."""


@dataclass(frozen=True, slots=True)
class ListHeader(PrefixHeader):
    """A list of signatures, each after `prefix`: `v1,… v1,…`, `v1=…,v1=…`.

    An entry with another prefix is another version and is ignored, so it is never accepted as this one.
    """

    separator: str = ","

    def read(self, value: str) -> tuple[list[str], str]:
        found = [each[len(self.prefix) :] for each in value.split(self.separator) if each.startswith(self.prefix)]
        if not 0 < len(found) <= _SIGNATURES:
            raise RefusedRequest("malformed_signature")
        return found, ""


@dataclass(frozen=True, slots=True)
class Fields:
    """A list of `key=value`: `t=1700000000,v1=…,v1=…,v0=…`.

    `signature` may occur several times; `timestamp` must occur once. Other keys are ignored, so an older version of the
    signature is never accepted as this one. Nothing is trimmed: a key with surrounding white space is refused.
    """

    timestamp: str = "t"
    signature: str = "v1"
    separator: str = ","
    timed: ClassVar[bool] = True

    def read(self, value: str) -> tuple[list[str], str]:
        signatures: list[str] = []
        timestamps: list[str] = []
        for each in value.split(self.separator):
            key, equals, text = each.partition("=")
            if not equals or key != key.strip():
                raise RefusedRequest("malformed_signature")
            if key == self.signature:
                signatures.append(text)
            elif key == self.timestamp:
                timestamps.append(text)
        if not 0 < len(signatures) <= _SIGNATURES:
            raise RefusedRequest("malformed_signature")
        if not timestamps:
            raise RefusedRequest("missing_timestamp")
        if len(timestamps) > 1:
            raise RefusedRequest("ambiguous_signature")
        return signatures, timestamps[0]

    def write(self, signature: str, timestamp: str) -> str:
        return f"{self.timestamp}={timestamp}{self.separator}{self.signature}={signature}"


SignatureHeader = PrefixHeader | Fields
"""One format. `timed`: True if it includes the timestamp."""

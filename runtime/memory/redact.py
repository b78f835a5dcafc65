"""Secrets are taken out of every text before a store or an index sees it: each becomes `[REDACTED:type]`.

`PATTERNS` is the whole of what is known. They run on RE2, over the UTF-8 bytes of the text: its time is linear in the
text whatever the text is, and so is the whole as long as a row's value always matches once its key has.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import re2


class Pattern(NamedTuple):
    """One row: the `type` that is shown instead; what is searched for; what must also hold of (match, value).

    The value is the first group that matched, or without groups the whole match, and is all that is replaced.
    """

    type: str
    regex: bytes
    holds: Callable[[bytes, bytes], bool] = lambda _match, _value: True


_DONE = re.compile(rb"\[REDACTED:[a-z_]+\]")
_STAND_IN = re.compile(
    rb"secret://.*|//.*|\$\{.*|\$\(.*|\$[A-Z_][A-Z0-9_]*|%[A-Z_]+%|<[^>]*>?|\*+|x{3,}|\.{3,}|\xe2\x80\xa6"
    rb"|none|null|nil|true|false|undefined|os\.environ.*|process\.env.*",
    re.IGNORECASE | re.DOTALL,
)
_MADE_UP = re.compile(rb"[0-9!$%^*_+=#@/\\]")
_NO_SECRET = re.compile(
    rb"(?:public|primary|foreign|sort|partition|cache)_?key|(?:next|page|continuation|max|eos|bos|pad|unk|mask)_?token",
    re.IGNORECASE,
)


def _is_value(_match: bytes, value: bytes) -> bool:
    """Not a reference, a variable or a placeholder: those name a secret and are none."""
    return _DONE.match(value) is not None or _STAND_IN.fullmatch(value) is None


def _looks_made_up(value: bytes) -> bool:
    return _DONE.match(value) is not None or _MADE_UP.search(value) is not None


def _is_setting(match: bytes, value: bytes) -> bool:
    """`name=value` is a setting whatever the value is; after `name: ` prose may follow ("password: required")."""
    name_and_sign = match[: len(match) - len(value)]
    if _NO_SECRET.match(match) or not _is_value(match, value):
        return False
    return b"=" in name_and_sign or name_and_sign.endswith((b'"', b"'")) or _looks_made_up(value)


def _is_credential(match: bytes, value: bytes) -> bool:
    if not _is_value(match, value):
        return False
    return b"earer" in match[: len(match) - len(value)].lower() or _looks_made_up(value)


def _has_digit(_match: bytes, value: bytes) -> bool:
    return re.search(rb"[0-9]", value) is not None


# Quoted (as far as the quote or the line goes) or bare; what closes a sentence or a bracket after it is no part of it.
_VALUE = (
    rb"""["']?[ \t]*(?:=>|:=|[=:])[ \t]*(?:"((?:[^"\\\n]|\\[^\n])+)|'((?:[^'\\\n]|\\[^\n])+)"""
    rb"""|([^\s"'`&=](?:[^\s"'`&]*[^\s"'`&.,;:)}>])?))"""
)


def _setting(shouted: bytes, spoken: bytes) -> bytes:
    """A setting whose name ends in `_SHOUTED`, as environment variables do, or is one of the `spoken` ones."""
    return rb"(?:\b[A-Za-z0-9_]*_" + shouted + rb"|\b(?i:" + spoken + rb"))" + _VALUE


PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        "private_key",
        rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----(?:\s|\\[nr])*(?:[A-Za-z-]+: [^\n]*\s+)*"
        rb"[A-Za-z0-9+/=]{24}(?:[A-Za-z0-9+/=\s]|\\[nr])*(?:-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----)?",
    ),
    Pattern("jwt", rb"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{2,}\.[A-Za-z0-9_-]*"),
    Pattern("aws_access_key", rb"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"),
    Pattern("github_token", rb"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{22,})"),
    Pattern("gitlab_token", rb"\bglpat-[A-Za-z0-9_-]{20,}"),
    Pattern("slack_token", rb"\b(?:xox[a-z]|xapp)-[A-Za-z0-9-]{10,}"),
    Pattern("slack_webhook", rb"\bhooks\.slack\.com/(?:services|workflows)/([A-Za-z0-9_/-]{20,})"),
    Pattern("stripe_key", rb"\b(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{10,}"),
    Pattern("webhook_secret", rb"\bwhsec_[A-Za-z0-9+/=_-]{16,}"),
    Pattern("anthropic_key", rb"\bsk-ant-[A-Za-z0-9_-]{20,}"),
    Pattern("openai_key", rb"\bsk-(?:[a-z0-9]{1,8}-)?[A-Za-z0-9_]{20,}[A-Za-z0-9_-]*"),
    Pattern("google_api_key", rb"\bAIza[A-Za-z0-9_-]{35,}"),
    Pattern("npm_token", rb"\bnpm_[A-Za-z0-9]{36,}"),
    Pattern("pypi_token", rb"\bpypi-AgE[A-Za-z0-9_-]{50,}"),
    Pattern("sendgrid_key", rb"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    Pattern("url_password", rb"\b[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@\"'<>]*:([^\s/@\"'<>]+)@", _is_value),
    Pattern(
        "authorization",
        rb"(?i)\bauthorization[\"']?[ \t]*[:=][ \t]*[\"']?(?:(?:bearer|basic|token|apikey)[ \t]+)?([^\s\"',;]+)",
        _is_credential,
    ),
    Pattern("bearer", rb"\b(?i:bearer)[ \t]+([A-Za-z0-9._~+/-]{16,}=*)", _has_digit),
    Pattern(
        "key",
        _setting(rb"KEY", rb"(?:[a-z0-9_-]*[_-])?(?:api|secret|access|private|encryption|signing)[_-]?key"),
        _is_setting,
    ),
    Pattern(
        "token",
        _setting(rb"TOKEN", rb"(?:[a-z0-9_-]*[_-])?token|(?:access|auth|api|refresh|session)token"),
        _is_setting,
    ),
    Pattern(
        "secret",
        _setting(rb"SECRET", rb"(?:[a-z0-9_-]*[_-])?secret|(?:client|shared|signing|webhook)secret"),
        _is_setting,
    ),
    Pattern(
        "password",
        _setting(rb"PASSWORD", rb"(?:[a-z0-9_-]*[_-])?(?:password|passwd|passphrase|pwd)|dbpassword|userpassword"),
        _is_setting,
    ),
)
"""Every pattern, in the order in which they are tried: forms that name a service first, settings last."""


def _compile(regex: bytes) -> Any:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1  # bytes as they are; what ends a match is always ASCII
    options.log_errors = False
    return re2.compile(regex, options)


_COMPILED = tuple((pattern, _compile(pattern.regex)) for pattern in PATTERNS)
_ANY_OF_THEM = _compile(b"|".join(rb"(?:" + pattern.regex + rb")" for pattern in PATTERNS))


def redact(text: str) -> str:
    """`text` with every secret that `PATTERNS` knows replaced by `[REDACTED:type]`.

    Deterministic, and redacting twice changes nothing more: it ends only when another pass finds nothing. It does end,
    for every pass that changes something leaves fewer characters outside markers.
    """
    data = text.encode("utf-8", "surrogatepass")
    while _ANY_OF_THEM.search(data) is not None:
        before = data
        for pattern, regex in _COMPILED:
            data = _replace(pattern, regex, data)
        if data == before:
            break
    else:
        if data.isascii() and len(data) == len(text):
            return text
    return data.decode("utf-8", "surrogatepass")


def _replace(pattern: Pattern, regex: Any, data: bytes) -> bytes:
    pieces, at = [], 0
    for match in regex.finditer(data):
        group = next((number for number in range(1, regex.groups + 1) if match.group(number) is not None), 0)
        start, end = match.span(group)
        value = data[start:end]
        if _DONE.fullmatch(value) or not pattern.holds(data[match.start() : end], value):
            continue
        pieces += [data[at:start], b"[REDACTED:%s]" % pattern.type.encode()]
        at = end
    return b"".join([*pieces, data[at:]]) if pieces else data

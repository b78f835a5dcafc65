"""URL paths of webhooks, and URLs that may be called."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from dslc.blocks.values.invalid import Invalid

RESERVED = ("/healthz", "/readyz", "/metrics", "/v1", "/mcp", "/webhooks", "/console")
"""Path prefixes that the daemon serves itself, on either listener."""

_NOT_IN_PATH = re.compile(r"[^A-Za-z0-9\-._~!$&'()*+,;=:@%/]")  # RFC 3986 section 3.3: pchar and "/"
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
# Escapes of letters, digits, "-._~/%" and control characters give a path several spellings, or hide a segment.
_NEEDLESS_ESCAPE = re.compile(
    r"%(?:[01][0-9A-Fa-f]|2[DdEeFf5]|3[0-9]|4[1-9A-Fa-f]|5[0-9AFaf]|6[1-9A-Fa-f]|7[0-9AaEeFf])"
)


def valid_url_path(path: str) -> str:
    """Return `path`. Raises Invalid, with the wrong part, unless it is a canonical URL path outside `RESERVED`."""
    if not path.startswith("/"):
        raise Invalid("a URL path starts with `/`", hint=f"`/{path.lstrip('/')[:60]}`" if _plain(path) else None)
    for bad, message in (
        (re.search(r"[?#].*", path, re.DOTALL), "a path must not have a query or fragment"),
        (_NOT_IN_PATH.search(path), "this character is not allowed in a URL path"),
        (_BAD_ESCAPE.search(path), "`%` must be followed by two hexadecimal digits"),
        (_NEEDLESS_ESCAPE.search(path), "this escape is not allowed: it disguises the path"),
        (re.search(r"//+", path), "a path must not have an empty segment"),
        (re.search(r"(?<=/)\.\.?(?=/|$)", path), "a path must not have a `.` or `..` segment"),
    ):
        if bad:
            raise Invalid(message, part=bad.span())
    for reserved in RESERVED:
        if path == reserved or path.startswith(f"{reserved}/"):
            raise Invalid(
                f"`{reserved}` is reserved for the daemon", hint="such as `/hooks/github`", part=(0, len(reserved))
            )
    return path


def _plain(text: str) -> bool:
    return bool(text) and len(text) <= 60 and not _NOT_IN_PATH.search(text)


def valid_url(url: str) -> str:
    """Return `url`. Raises Invalid unless it is an absolute http or https URL without credentials or fragment."""
    bad = re.search(r"[\x00-\x20\x7f-\U0010ffff\"<>\\^`{|}]", url)
    if bad:
        raise Invalid("this character is not allowed in a URL", part=bad.span())
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError as error:
        raise Invalid("not a URL", hint="such as `https://example.org/hooks`") from error
    try:
        _ = parts.port
    except ValueError as error:
        # The message does not quote the port: it is a password if the rest of the URL is missing.
        raise Invalid(
            "the port of a URL must be a number up to 65535", hint="such as `https://example.org/hooks`"
        ) from error
    if parts.scheme not in {"http", "https"} or not host:
        raise Invalid("not an http or https URL", hint="such as `https://example.org/hooks`")
    if parts.username is not None or parts.password is not None:
        raise Invalid("a URL here must not have a user name or password")
    if "#" in url:
        raise Invalid("a URL here must not have a fragment", part=(url.index("#"), len(url)))
    return url

"""Forms with files: `multipart/form-data` (RFC 7578), read from a whole body."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from runtime.webhooks.request.refusal import RefusedRequest

MULTIPART: Final = "multipart/form-data"

_PARTS = 200
_HEAD = 4096
_BOUNDARY = re.compile(r";\s*boundary=(?:\"([^\"]{1,70})\"|([^\s;\"]{1,70}))\s*(?:;|$)", re.IGNORECASE)
_PARAMETER = re.compile(r";\s*(name|filename)(\*?)=(?:\"((?:\\\"|[^\"])*)\"|([^\s;\"]*))", re.IGNORECASE)


class Part(NamedTuple):
    """One field. `filename`: None for a text. `content_type`: in lower case, without parameters."""

    name: str
    filename: str | None
    content_type: str
    data: bytes


def read_parts(body: bytes, content_type: str) -> list[Part]:
    """Return the fields of a form, at most 200, in their order. `content_type`: the header's value, with the boundary.

    Raises `RefusedRequest` `invalid_form` for anything that is not exactly such a form.
    """
    found = _BOUNDARY.search(content_type)
    if found is None:
        raise RefusedRequest("invalid_form")
    boundary = (found[1] or found[2]).encode("utf-8", "surrogatepass")
    # What precedes the first boundary and follows the last one is no part of the form (RFC 2046 section 5.1.1).
    _, *pieces = (b"\r\n" + body).split(b"\r\n--" + boundary, _PARTS + 1)
    parts: list[Part] = []
    for piece in pieces:
        if piece.startswith(b"--"):
            if piece is not pieces[-1]:
                break
            return parts
        parts.append(_part(piece))
    raise RefusedRequest("invalid_form")


def _part(piece: bytes) -> Part:
    line, _, rest = piece.partition(b"\r\n")
    head, end, data = rest.partition(b"\r\n\r\n")
    if line.strip(b" \t") or not end or len(head) > _HEAD:
        raise RefusedRequest("invalid_form")
    fields: dict[str, str] = {}
    for text in head.decode("utf-8", "replace").split("\r\n"):
        name, colon, value = text.partition(":")
        if not colon or name.lower() in fields:
            raise RefusedRequest("invalid_form")
        fields[name.lower()] = value.strip()
    disposition = fields.get("content-disposition", "")
    given: dict[str, str] = {}
    for match in _PARAMETER.finditer(disposition):
        key = match[1].lower() + match[2]
        if key in given:
            raise RefusedRequest("invalid_form")
        given[key] = (match[3] or match[4] or "").replace('\\"', '"').replace("%22", '"')
    if disposition.partition(";")[0].strip().lower() != "form-data" or "name" not in given:
        raise RefusedRequest("invalid_form")
    media = fields.get("content-type", "text/plain").partition(";")[0].strip().lower()
    return Part(given["name"], given.get("filename", given.get("filename*")), media, data)

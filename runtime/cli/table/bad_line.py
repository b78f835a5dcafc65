"""A line of a file that cannot be imported."""

from __future__ import annotations

from runtime.errors import UsageError


class BadLine(UsageError):  # noqa: N818
    """`number`: of the line, from 1. The message has no file."""

    def __init__(self, number: int, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.number = number


def decoded(raw: bytes, line: int) -> str:
    """Return a line as text, the first one without a byte order mark. Raises BadLine."""
    if line == 1:
        if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise BadLine(line, "it is UTF-16, not UTF-8", hint="save the file as UTF-8")
        raw = raw.removeprefix(b"\xef\xbb\xbf")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        hint = "save the file as UTF-8"
        raise BadLine(line, f"it is not UTF-8: invalid byte {error.start + 1}", hint=hint) from None

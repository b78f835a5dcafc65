"""What a reader of values raises: a message, what to write instead, and which part of the value is wrong."""

from __future__ import annotations

from typing import Literal

Fault = Literal["type", "bounds", "form"]


class Invalid(ValueError):  # noqa: N818 - a verdict on a value, raised at once and reported as data
    """A value that is not what belongs here. The text never holds the value of a secret.

    `fault`: "type" (not of this type at all), "bounds" (of the type, but too large or too small), "form" (a
    string that is not a valid URL, path …). `part`: start and end of what is wrong as indexes into the value, or None
    for all of it.
    """

    def __init__(
        self, message: str, *, hint: str | None = None, fault: Fault = "form", part: tuple[int, int] | None = None
    ) -> None:
        super().__init__(message)
        self.hint = hint
        self.fault: Fault = fault
        self.part = part

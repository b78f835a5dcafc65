"""The exception for invalid values: a message, a hint, and the range of the value that is wrong."""

from __future__ import annotations

from typing import Literal

Fault = Literal["type", "bounds", "form"]


class Invalid(ValueError):  # noqa: N818 - describes a value; callers turn it into a diagnostic
    """An invalid value. The message never contains the value of a secret.

    `fault`: "type" (not of this type at all), "bounds" (of the type, but too large or too small), "form" (a
    string that is not a valid URL, path …). `part`: start and end of the wrong range as indexes into the value, or None
    for the whole value.
    """

    def __init__(
        self, message: str, *, hint: str | None = None, fault: Fault = "form", part: tuple[int, int] | None = None
    ) -> None:
        super().__init__(message)
        self.hint = hint
        self.fault: Fault = fault
        self.part = part

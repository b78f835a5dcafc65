"""Event types, as the sender writes them."""

from __future__ import annotations

from dslc.blocks.values.invalid import Invalid

LONGEST = 255
"""Maximum number of characters of an event."""


def valid_event(event: str) -> str:
    """Return `event`. Raises Invalid unless it is printable text of 1 to `LONGEST` characters."""
    if not event or len(event) > LONGEST:
        raise Invalid(f"an event has 1 to {LONGEST} characters", hint="such as `pull_request`", fault="bounds")
    bad = next((at for at, character in enumerate(event) if not character.isprintable()), None)
    if bad is not None:
        raise Invalid("this character is not allowed in an event", hint="such as `pull_request`", part=(bad, bad + 1))
    if event != event.strip():
        raise Invalid("an event must not begin or end with a space", hint="such as `pull_request`")
    return event

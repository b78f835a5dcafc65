"""The type of an event, as the sender calls it."""

from __future__ import annotations

from dslc.blocks.values.invalid import Invalid

LONGEST = 255
"""Characters; what a delivery's event may have."""


def valid_event(event: str) -> str:
    """`event` itself. Raises Invalid for what no delivery's event can be: it is short printable text."""
    if not event or len(event) > LONGEST:
        raise Invalid(f"an event has 1 to {LONGEST} characters", hint="such as `pull_request`", fault="bounds")
    bad = next((at for at, character in enumerate(event) if not character.isprintable()), None)
    if bad is not None:
        raise Invalid("this character cannot stand in an event", hint="such as `pull_request`", part=(bad, bad + 1))
    if event != event.strip():
        raise Invalid("an event neither begins nor ends with a space", hint="such as `pull_request`")
    return event

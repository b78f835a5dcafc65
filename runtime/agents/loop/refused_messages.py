"""Messages that the service of a model refused. Contexts have an event in their place, so they end one run only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from runtime.threads.content import EventPart, Part, ToolOutputPart
from runtime.threads.messages import Message

REFUSED: Final = "run_refused"
"""The event at the end of a run whose request was refused because of what it says."""
_MESSAGE: Final = EventPart("refused", "A message was refused by the model's service. It is left out here.")
_OUTPUT: Final = "This output was refused by the model's service. It is left out here."
_END: Final = EventPart(REFUSED, "The turn failed, because the model's service refused it.")


def without_refused(messages: Sequence[Message], own: str) -> list[Message]:
    """Return the messages, with an event in place of what was refused in runs that ended so: what no model has answered
    in them, which is the message that the run was about, or the outputs of its last calls. `own`: the run that reads
    them, whose messages stay as they are."""
    refused = {each.run_id for each in messages if _is_end(each)} - {own}
    answered = {each.run_id: each.position for each in messages if each.role == "assistant"}
    return [
        replace(each, parts=_replacement_parts(each))
        if each.run_id in refused and each.position > answered.get(each.run_id, -1)
        else each
        for each in messages
    ]


def _is_end(message: Message) -> bool:
    return any(isinstance(part, EventPart) and part.name == REFUSED for part in message.parts)


def _replacement_parts(message: Message) -> tuple[Part, ...]:
    if message.role == "tool":
        return tuple(replace(part, text=_OUTPUT) for part in message.parts if isinstance(part, ToolOutputPart))
    # The reason may quote what was refused.
    return (_END if _is_end(message) else _MESSAGE,)

"""Results of tools as text for a language model."""

from __future__ import annotations

import json
from typing import Final

from pydantic import BaseModel

from runtime.tools.patterns import FOR_AGENTS

_NOTE: Final = "… [{count:,} characters left out] …"


def result_text(result: BaseModel, longest: int) -> str:
    """Return the result of a tool as JSON in one line, cut to `longest` characters in its middle. Fields of the result
    that are null are left out; data in it, such as a row or a stored value, has its nulls. Secrets that the tool made
    are withheld."""
    value = result.model_dump(mode="json", exclude_none=True, context=FOR_AGENTS)
    return shortened(json.dumps(value, ensure_ascii=False, separators=(",", ":")), longest)


def shortened(text: str, longest: int) -> str:
    """Return `text`, or its beginning and its end with a note between them that says how much is left out: at most
    `longest` characters, and not less than the note."""
    if len(text) <= longest:
        return text
    # The note for the whole text is as long as any that is needed.
    room = max(0, longest - len(_NOTE.format(count=len(text))))
    begin = room - room // 3
    end = len(text) - (room - begin)
    return f"{text[:begin]}{_NOTE.format(count=end - begin)}{text[end:]}"

"""Texts whose form a row defines: the ARN of a topic, the id of a tenant."""

from __future__ import annotations

import re

from dslc.blocks.values.invalid import Invalid


def valid_form(text: str, pattern: str, says: str) -> str:
    """Return `text`. Raises Invalid unless all of it matches `pattern`. `says`: description of such a text."""
    if re.fullmatch(pattern, text) is None:
        raise Invalid(f"not {says}")
    return text

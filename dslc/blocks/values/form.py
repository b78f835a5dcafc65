"""Texts of a form that a row gives: the ARN of a topic, the id of a tenant."""

from __future__ import annotations

import re

from dslc.blocks.values.invalid import Invalid


def valid_form(text: str, pattern: str, says: str) -> str:
    """`text` itself. Raises Invalid unless the whole of it matches `pattern`; `says`: what such a text is."""
    if re.fullmatch(pattern, text) is None:
        raise Invalid(f"not {says}")
    return text

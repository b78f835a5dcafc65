"""Text in a person's editor."""

from __future__ import annotations

import os
import tempfile

import click

from runtime.errors import UsageError


def edited_text(text: str) -> str:
    """Open $VISUAL or $EDITOR with `text` and return the new text; `text` if it was not saved. Raises UsageError if
    the editor cannot be run or fails."""
    try:
        edited = click.edit(text, extension=".md")
    except click.ClickException as error:
        raise UsageError(error.message, hint="set EDITOR, or give the text with --value") from None
    if edited is None:
        return text
    # An editor ends the last line, which the text may not do.
    return edited if text.endswith("\n") else edited.removesuffix("\n")


def kept_text(text: str) -> str:
    """Write `text` to a new file that only its owner can read, and return the path."""
    descriptor, path = tempfile.mkstemp(prefix="symbi-", suffix=".md")
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
    return path

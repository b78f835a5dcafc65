"""What the pages of the reference are called."""

from __future__ import annotations

from typing import NamedTuple


class Family(NamedTuple):
    """How a family of the catalogue is introduced: its page without `.md`, its title, and what its rows are."""

    page: str
    title: str
    intro: str


_FAMILIES = {
    "provider": Family("providers", "Providers", "Who sends to a webhook, and how what they send is signed."),
    "store": Family("stores", "Stores", "The kinds of store a memory may have."),
    "remote": Family(
        "remotes",
        "Remotes",
        "Where copies of records are sent. Given as [`remote`](stores.md#recordsremote) among the options of "
        "`store records`.",
    ),
    "secret": Family("secrets", "Secret backends", "Where a secret may be kept: what follows `secret://`."),
    "index": Family("indexes", "Indexes", "Where a memory's vectors are kept and searched."),
    "embedding": Family("embeddings", "Embeddings", "What turns a memory's text into vectors."),
    "model": Family(
        "models", "Models", "The language models that summarise what a memory holds, and that an agent may ask."
    ),
    "tool": Family("tools", "Tools", "What an agent may do."),
}


def family(name: str) -> Family:
    """How the family is introduced; a plain one for a family that this table does not know."""
    return _FAMILIES.get(name) or Family(f"{name}s", f"{name.capitalize()}s", f"What a `{name}` may be.")


def family_page(name: str) -> str:
    """The file that a family's rows are on."""
    return f"{family(name).page}.md"

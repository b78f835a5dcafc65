"""File names, titles and introductions of the reference's pages."""

from __future__ import annotations

from typing import NamedTuple


class Family(NamedTuple):
    """Page of a family of the catalog: file name without `.md`, title and introduction."""

    page: str
    title: str
    intro: str


_FAMILIES = {
    "provider": Family("providers", "Providers", "Senders of webhooks, and how they sign their requests."),
    "store": Family("stores", "Stores", "Kinds of stores of a memory."),
    "remote": Family(
        "remotes",
        "Remotes",
        "Services that receive copies of records. Used in [`remote`](stores.md#recordsremote), an option of "
        "`store records`.",
    ),
    "secret": Family(
        "secrets",
        "Secret backends",
        "Places where a secret may be stored. The name follows `secret://` in a reference.",
    ),
    "index": Family("indexes", "Indexes", "Search indexes of a memory."),
    "embedding": Family("embeddings", "Embeddings", "Models that convert a memory's text to vectors."),
    "model": Family(
        "models",
        "Models",
        "Services that run a language model, for agents and for the summaries of a memory. The block "
        "[`model`](model.md) gives one a name.",
    ),
    "thread": Family("threads", "Threads", "Which thread a delivery for an agent is added to."),
    "tool": Family("tools", "Tools", "Tools that an agent may use."),
}


def family(name: str) -> Family:
    """Return the page of a family; a generic one for a family that is not in the table."""
    return _FAMILIES.get(name) or Family(f"{name}s", f"{name.capitalize()}s", f"Possible values of `{name}`.")


def family_page(name: str) -> str:
    """Return the file name of a family's page."""
    return f"{family(name).page}.md"

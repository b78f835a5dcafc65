"""`python -m runtime.generate.catalog` writes `dslc/catalog.json`: the kinds of blocks, and the rows of all tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel

import dslc.blocks
from dslc.blocks.setting import settings_of
from runtime.agents.thread_modes import MODES
from runtime.memory import STORES, StoreRow
from runtime.memory.records.remotes import REMOTES
from runtime.models import MODELS
from runtime.search.embedding import EMBEDDINGS
from runtime.search.index import INDEXES
from runtime.secrets import BACKENDS
from runtime.tools import TOOLS
from runtime.tools.model.agent_toolset import DONE
from runtime.tools.tool import Tool
from runtime.webhooks.providers import PROVIDERS

VERSION = 1
FILE = Path(dslc.blocks.__file__).parent.parent / "catalog.json"


def catalog() -> dict[str, Any]:
    """Return the whole catalog as JSON: families of rows with their options, sorted by name."""
    families: dict[str, Mapping[str, Any]] = {
        "provider": PROVIDERS,
        "store": STORES,
        "remote": REMOTES,
        "secret": BACKENDS,
        "index": INDEXES,
        "embedding": EMBEDDINGS,
        "model": MODELS,
        "thread": MODES,
        # No agent can have the tools for people.
        "tool": {
            **{name: _tool(tool) for name, tool in TOOLS.items() if not tool.people},
            # Every agent has it, and may list it with the others.
            DONE.name: _Tool(DONE.name, "End the turn", _first(DONE.description), destructive=False),
        },
    }
    return {
        "version": VERSION,
        "kinds": {kind: _settings(model) for kind, model in dslc.blocks.TABLE.items()},
        "families": {name: [_row(rows[key]) for key in sorted(rows)] for name, rows in families.items()},
    }


class _Tool(NamedTuple):
    """The fields of a tool that a program can refer to."""

    name: str
    title: str
    doc: str
    destructive: bool
    shared: bool = False


def _tool(tool: Tool) -> _Tool:
    return _Tool(tool.name, tool.title, _first(tool.doc), tool.destructive, tool.group == "tables")


def _first(doc: str) -> str:
    """Return the first paragraph as one line."""
    return " ".join(doc.partition("\n\n")[0].split())


def _row(row: Any) -> dict[str, Any]:
    options: type[BaseModel] | None = getattr(row, "options", None)
    signed = getattr(row, "signed", None)
    return {
        "name": row.name,
        "title": row.title,
        "doc": row.doc,
        "doc_url": getattr(row, "doc_url", None),
        "extra": getattr(row, "extra", None),
        "signed": None if signed is None else list(signed),
        "signed_by": getattr(row, "signed_by", None),
        **_events(row),
        **({"files": row.files, "expires": row.expires} if isinstance(row, StoreRow) else {}),
        **({"destructive": True} if isinstance(row, _Tool) and row.destructive else {}),
        **({"shared": True} if isinstance(row, _Tool) and row.shared else {}),
        "options": [] if options is None else _settings(options),
    }


def _events(row: Any) -> dict[str, Any]:
    """Return the fields of a provider's event and whether it has secrets; empty for rows of other families."""
    if not hasattr(row, "event"):
        return {}
    # Otherwise the options of the row may define the field, which only the row knows.
    known = row.event or row.event_by or row.configure is None
    return {
        "event": list(row.event) if known else None,
        "event_by": row.event_by,
        "keyless": row.keyless,
        "keyless_by": row.keyless_by,
    }


def _settings(model: type[BaseModel]) -> list[dict[str, Any]]:
    return [setting.to_json() for setting in settings_of(model)]


def render() -> str:
    """Return the content of the committed file."""
    return json.dumps(catalog(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(render(), encoding="utf-8")

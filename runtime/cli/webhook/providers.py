"""`symbi webhook providers`: the known senders and their signatures."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import click

from dslc.blocks.values.quantity import format_duration
from runtime.cli.terminal.output import json_option
from runtime.cli.terminal.screen import echo_json
from runtime.cli.tool_command import Fields, Rows
from runtime.errors import UsageError

_UNSUPPORTED = ("asana", "notion")


@click.command(short_help="List the known senders, or show how NAME signs.")
@click.argument("name", required=False)
@json_option
def providers(name: str | None, as_json: bool) -> None:
    """List the senders that `provider` accepts, or describe the sender NAME.

    The description contains the signature scheme, the meaning of the secret, the fields of event and delivery id, the
    handshake, and the address of the sender's documentation. Needs neither a root nor a daemon.
    """
    from runtime.webhooks.providers import PROVIDERS
    from runtime.webhooks.providers.description import describe

    if name is not None:
        row = PROVIDERS.get(name)
        if row is None:
            texts = {each.name: f"{each.title} {each.doc}" for each in PROVIDERS.values()}
            raise UsageError(f"unknown provider {name!r}", hint=_hint(name, texts))
        said = describe(row)._asdict()
        if as_json:
            echo_json(said)
        else:
            _show(said)
        return
    every = [describe(PROVIDERS[each]) for each in sorted(PROVIDERS)]
    answer = {"providers": [each._asdict() for each in every]}
    if as_json:
        echo_json(answer)
    else:
        _ROWS(answer)


def _hint(name: str, known: Mapping[str, str]) -> str:
    """Return a hint for an unknown name. `known`: title and description of each provider."""
    if name.lower() in _UNSUPPORTED:
        return f"{name.lower()} sends its secret in an unsigned request, so it is not supported; use `custom`"
    mentioned = [each for each, text in known.items() if len(name) > 2 and name.lower() in text.lower()]
    near = get_close_matches(name.lower(), known, n=1) or mentioned
    return (
        f"did you mean {' or '.join(near[:3])}?"
        if near
        else "`symbi webhook providers` lists them; `custom` describes others"
    )


def _duration(said: Mapping[str, Any]) -> str | None:
    return None if said["tolerance"] is None else format_duration(said["tolerance"])


def _names_text(names: object) -> str:
    return ", ".join(f"`{name}`" for name in names) if isinstance(names, tuple) else ""


_ROWS = Rows(
    "providers",
    {"provider": "name", "sender": "title", "proof": "proof", "time": _duration},
    empty="There are no providers.",
)
_show = Fields(
    {
        "provider": "name",
        "sender": "title",
        "about": "doc",
        "proof": "proof",
        "in": lambda said: _names_text(said["places"]) or "the body",
        "secret": lambda said: said["secret"] or "none: the sender's keys are fetched",
        "time": lambda said: (
            f"signed; valid for {_duration(said)} before and after" if said["tolerance"] else "not signed"
        ),
        "event": lambda said: said["event"] or "none",
        "identified by": lambda said: said["told_apart_by"] or "nothing: every request is a new delivery",
        "body": lambda said: f"at most {said['body_limit']}",
        "handshake": lambda said: said["handshake"] or "none",
        "options": lambda said: _names_text(said["options"]) or "none",
        "see": lambda said: said["doc_url"] or "docs/providers.md",
    }
)

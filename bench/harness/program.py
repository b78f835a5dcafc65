"""The program and the delivery of the receiver's benchmarks."""

from __future__ import annotations

import json

from dslc.blocks.webhook import Webhook
from dslc.catalog import Catalog
from dslc.compiler import analyse
from dslc.source import Source

BODY_BYTES = 8 * 1024
PATH = "/hooks/github"

_WEBHOOK = """\
webhook {name} {{
    path     "{path}"
    provider github
    secret   "secret://env/BENCH_SECRET"
{more}}}
"""
_AGENT = "    agent    recorder\n"


def program(webhooks: int, *, agent: bool = True) -> str:
    """Return a program of this number of webhooks; the first gets the load. `agent`: they run an agent, a recorder."""
    more = _AGENT if agent else ""
    others = [_WEBHOOK.format(name=f"other-{i}", path=f"/hooks/other/{i}", more=more) for i in range(1, webhooks)]
    return "\n".join([_WEBHOOK.format(name="github", path=PATH, more=more), *others])


def one_webhook(more: str = "") -> Webhook:
    """Return the webhook that gets the load, compiled. `more`: further lines of it."""
    source = Source("bench", _WEBHOOK.format(name="github", path=PATH, more=_AGENT + more))
    compiled = analyse([source], Catalog.installed()).program
    assert compiled is not None
    return compiled.webhooks["github"]


def body() -> bytes:
    """Return a push-like JSON document of exactly 8 KiB."""
    document = {"action": "opened", "number": 7, "repository": {"full_name": "octo/site"}, "sender": {"login": "mona"}}
    filler = BODY_BYTES - len(json.dumps({**document, "body": ""}))
    return json.dumps({**document, "body": "x" * filler}).encode()

"""What a copy of a whole root shows of a user who was removed later, with the present master key and the present keys:
what the docs name as not encrypted, and nothing else."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import select

from runtime.crypto import Unsealable
from runtime.daemon.process import master_key
from runtime.daemon.process.root import Root
from runtime.database.connection import Database
from runtime.database.keys.ring import KeyRing
from runtime.database.schema import SEALED_TABLES
from runtime.database.sealed import Seal, Sealed
from runtime.search.index.embedded import sqlcipher
from tests.lanes import LONG
from tests.runtime.agents.scripted import Refusal, ScriptedModel, says
from tests.runtime.daemon.running import Daemon, running, until, write_program
from tests.runtime.daemon.v1 import ask, make_token, make_webhook

pytestmark = LONG

MARK = "okapi"
PROGRAM = """\
memory notes {{ store collection embedding hashing }}
memory pages {{ path "pages" embedding hashing }}
{model}
agent reviewer {{
    memory notes model scripted main true
    tools [webhook_create memory_append archival_insert conversation_search]
    confirm [webhook_create]
}}
agent writer {{ memory pages }}
"""
CLEAR = {"webhook", "tag", "project", "source", "label", "subject", "refusal", "name", "page"}
"""The parts that are not encrypted, as docs/keys.md lists them. `refusal`: what a service answered, in the error of a
run; `page`: of a memory that is files."""
SAID = {"message", "reply", "about", "who", "request", "refused", "title", "reason", "argument"}
ENCRYPTED = SAID | {"block", "archival", "item", "preference", "taste", "prompt", "body"} | {"value", "kvtag", "kvname"}
INDEXED = ("collection:{}/notes", "collection:{}/collection", "recall:{}")
"""The identities of the stores whose indexes are encrypted, with the place of the database's id."""


def texts(part: str) -> str:
    return f"{MARK}-{part}-0"


def fill(daemon: Daemon, model: ScriptedModel) -> str:
    """Store a text of the user in every place that takes one; return the user's id. Each text names its place."""
    user_id = str(json.loads(daemon.symbi("user", "add", texts("name"), "--json").stdout)["id"])
    token = make_token(daemon, "--user", texts("name"), "--scope", "write", "--label", texts("label"))

    def done(method: str, path: str, body: Any) -> Any:
        answer = ask(daemon, token, method, path, body)
        assert answer.status in (200, 201, 202), (path, answer)
        return answer.json()

    def chat(text: str, *replies: Any, **given: Any) -> Any:
        model.replies = [*replies, says("Well.")]
        return done("POST", "/v1/agent/chat", {"input": text, **given})

    preferences = {texts("preference"): texts("taste")}
    own = {"version": 0, "preferences": preferences, "system_prompt": texts("prompt")}
    done("PUT", "/v1/agent/config", own)
    append = {"label": "human", "content": texts("block")}
    chat(texts("message"), says(texts("reply"), memory_append=append))
    chat(texts("about"), says(archival_insert={"content": texts("archival")}))
    chat(texts("who"), says(), subject=texts("subject"))
    waits = chat(texts("request"), says(webhook_create={"title": texts("argument"), "agent": None}))
    assert waits["state"] == "awaiting"
    [approval] = done("GET", "/v1/approvals", None)["approvals"]
    done("POST", f"/v1/approvals/{approval['id']}/deny", {"reason": texts("reason")})
    begun = done("POST", "/v1/agent/conversations", {"title": texts("title")})
    chat(texts("refused"), Refusal(400, texts("refusal")), thread=begun["conversation_id"])
    item = {"text": texts("item"), "tags": [texts("tag")], "project_id": texts("project")}
    done("POST", "/index", {**item, "source_uri": f"https://{texts('source')}.example/"})
    done("POST", "/v1/memory/items", {"agent": "writer", "text": texts("page"), "type": "fact"})
    entry = {"value": {"said": texts("value")}, "tags": [texts("kvtag")]}
    done("PUT", f"/v1/kv/entries/{texts('kvname')}", entry)
    model.replies = [says("Seen.")]
    made = make_webhook(daemon, token, texts("webhook"))
    body = json.dumps({"said": texts("body")}).encode()
    assert made.post(body).status == 202
    until(lambda: not _living(daemon), what="the end of all runs")
    found = done("GET", f"/v1/agent/context?query={MARK}", None)
    assert texts("block") in json.dumps(found)
    return user_id


def _living(daemon: Daemon) -> bool:
    runs = json.loads(daemon.symbi("agent", "runs", "--user", texts("name"), "--json").stdout)["runs"]
    return any(run["state"] in ("queued", "running", "awaiting") for run in runs)


def parts(content: bytes) -> set[str]:
    """Return the names of the places whose texts are in these bytes."""
    return {each.decode() for each in re.findall(rb"okapi-([a-z]+)-0", content)}


async def shown(root: Root) -> dict[str, set[str]]:
    """Return the places whose texts are readable in a root with the keys that it has, by where they are read."""
    found = {str(file.relative_to(root.folder)): parts(file.read_bytes()) for file in _files(root.folder)}
    database = await Database.open(root.state / "symbiont.db", master_key.load(root, None, {}))
    async with database.read() as connection:
        for table in SEALED_TABLES:
            for row in (await connection.execute(select(table))).mappings():
                for column in table.c:
                    if isinstance(column.type, Sealed) and row[column.name] is not None:
                        found.setdefault(str(column), set()).update(parts(_opened(database.keys, column, row)))
    for file in (root.state / "index").glob("*.db"):
        found[f"opened {file.name}"] = _rows(file, database)
    await database.close()
    return {where: names for where, names in found.items() if names}


def _files(folder: Path) -> Iterator[Path]:
    return (file for file in folder.rglob("*") if file.is_file())


def _opened(keys: KeyRing, column: Any, row: Any) -> bytes:
    table, version = column.table, column.type.version
    name = "/".join(str(row[each.name]) for each in table.primary_key.columns if each.name != "user_id")
    given = {"row": name, "user_id": row["user_id"], "version": None if version is None else row[version]}
    try:
        return Seal(keys, column).open(row[column.name], **given)
    except Unsealable:
        return b""


def _rows(file: Path, database: Database) -> set[str]:
    """Return the places whose texts are in the file of an index, opened with each key that there is for one."""
    found: set[str] = set()
    for key in (key for identity in INDEXED for key in database.keys.index_keys(identity.format(database.id))):
        with closing(sqlcipher.connect(file, key, 1)) as connection:
            try:
                rows = connection.execute("SELECT text, about, content FROM entries").fetchall()
            except sqlcipher.ERRORS:
                continue
            found |= {name for row in rows for each in row for name in parts(_bytes(each))}
    return found


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def test_an_old_copy_shows_only_what_was_never_encrypted(tmp_path: Path) -> None:
    """The copy has everything of the root except the keys; it gets those from after the removal."""
    live, copy, control = tmp_path / "live", tmp_path / "copy", tmp_path / "control"
    live.mkdir()
    with ScriptedModel(says("Well.")) as model:
        write_program(live, PROGRAM.format(model=model.block))
        with running(live, "program") as daemon:
            fill(daemon, model)
            shutil.copytree(live, control)
            shutil.copytree(live, copy, ignore=shutil.ignore_patterns("keys.db*"))
        before = asyncio.run(shown(Root(control)))
        assert set().union(*before.values()) >= ENCRYPTED, "the copy has not everything that is to be tried"
        with running(live, "program") as daemon:
            assert daemon.symbi("user", "remove", texts("name"), "--yes").returncode == 0
    for file in (live / ".symbi").glob("keys.db*"):
        shutil.copy2(file, copy / ".symbi" / file.name)
    after = asyncio.run(shown(Root(copy)))
    assert set().union(*after.values()) == CLEAR, after

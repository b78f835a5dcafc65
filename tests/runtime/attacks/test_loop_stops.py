"""The longest time for which one request keeps the event loop of a daemon from all others."""

from __future__ import annotations

import gzip
import json
import mmap
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from runtime.api.rest.endpoints import ENDPOINTS, Endpoint
from runtime.http.limits import HttpLimits
from runtime.outbound.http import LARGEST_ANSWER
from runtime.tool_servers.stdio import MOST_VALUES
from runtime.webhooks.request import payload
from tests.lanes import LONG
from tests.runtime.attacks.raw_answers import CALL, RawAnswers, said
from tests.runtime.attacks.worst_bodies import path_of, worst_parameters, worst_queries, worst_values
from tests.runtime.daemon import measured
from tests.runtime.daemon.running import SECRET, Answer, Daemon, running, write_program
from tests.runtime.daemon.v1 import ask, make_token
from tests.signatures import sign

MOST_SECONDS: Final = 0.25
TRIES: Final = 3
BODY: Final = 25 * 1024 * 1024 - 1000
"""Bytes of a delivery: nearly as many as any webhook may accept."""
MESSAGE: Final = 16 * 1024 * 1024 - 1000
ANSWER: Final = LARGEST_ANSWER - 1000

FILTERS: Final = {
    "filtered": 'json_path "$.a" exists true',
    "children": 'json_path "$[*]" matches "(a|b|ab)*c$"',
    "searching": 'json_path "$..a" equals "b"',
    "patterns": """json_path "$[?search(@, '(a|aa)+$')]" exists true""",
}
PROGRAM: Final = """\
memory notes { path "notes" }
memory collection { store collection }
agent reviewer { memory notes }
webhook plain { path "/hooks/plain", provider token, secret "secret://env/GITHUB_SECRET", agent reviewer }
""" + "".join(
    f"""\
webhook {name} {{
    path "/hooks/{name}"
    provider custom {{ compressed sent }}
    secret "secret://env/GITHUB_SECRET"
    agent reviewer
    limits {{ body 25MiB }}
    filter {{ {condition} }}
}}
"""
    for name, condition in FILTERS.items()
)

AGENTS: Final = """\
model raw { service openai { url "URL/v1" model "m" } }
model stream { service openai { url "URL/v1" model "m" stream true } }
mcp raw { url "URL/mcp" }
agent thinker { main true, memory notes, model raw, tools ["raw.*"], max_steps 4 }
agent streamed { memory notes, model stream, max_steps 4 }
"""

Sent = tuple[str, Callable[[], object]]
Send = Callable[[bytes], object]
Group = Callable[[], Iterator[Sent]]
"""Yields requests of one kind: what is sent, and a function that sends it."""


class Watch:
    """The longest stops of a daemon's loop."""

    def __init__(self, daemon: Daemon) -> None:
        self._process = Path(f"/proc/{daemon.process.pid}/stat")
        with (daemon.root / measured.FILE).open("r+b") as file:
            self._longest = mmap.mmap(file.fileno(), measured.FORM.size)

    def stops(self, group: Group) -> dict[str, float]:
        """Return the stops during each request of a group, and during what goes on after them, that are too long each
        time that the requests are sent."""
        found: dict[str, float] = {}
        for _ in range(TRIES):
            stops = {}
            for name, send in group():
                if not found or name in found or "afterwards" in found:
                    stops[name] = self._during(send)
            stops["afterwards"] = self._during(self._settle)
            found = {
                name: min(seconds, found.get(name, seconds))
                for name, seconds in stops.items()
                if seconds > MOST_SECONDS and (not found or name in found)
            }
            if not found:
                break
        return found

    def _during(self, act: Callable[[], object]) -> float:
        self._longest[:] = measured.FORM.pack(0.0)
        act()
        return float(measured.FORM.unpack(self._longest)[0])

    def _settle(self) -> None:
        """Wait until the daemon does nothing, for some seconds at most."""
        until, before = time.monotonic() + 10, -1
        while (used := self._used()) > before + 1 and time.monotonic() < until:
            before = used
            time.sleep(0.06)

    def _used(self) -> int:
        """Return the processor time that the daemon used, in hundredths of a second."""
        fields = self._process.read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])


@pytest.fixture
def services() -> Iterator[RawAnswers]:
    with RawAnswers.running() as server:
        yield server


@pytest.fixture
def daemon(tmp_path: Path, services: RawAnswers) -> Iterator[Daemon]:
    write_program(tmp_path, PROGRAM + AGENTS.replace("URL", services.url))
    with running(tmp_path, "program", command="tests.runtime.daemon.measured:measured") as started:
        approved = started.symbi("mcp-server", "approve", "raw", "--yes")
        assert approved.returncode == 0, approved
        yield started


@LONG
def test_no_request_stops_the_loop(daemon: Daemon, services: RawAnswers) -> None:
    watch, token = Watch(daemon), make_token(daemon, "--scope", "admin")
    groups = dict([*_rest(daemon, token), *_mcp(daemon, token), *_deliveries(daemon), *_heads(daemon, token)])
    groups |= _answers(daemon, token, services)
    found = {name: stops for name, group in groups.items() if (stops := watch.stops(group))}
    assert not found, json.dumps(found, indent=2)


def _rest(daemon: Daemon, token: str) -> Iterator[tuple[str, Group]]:
    """Yield groups for each endpoint: bodies of each size once, and the parameters of each tool to one of its
    endpoints."""
    sizes, called = set[int](), set[str]()
    for endpoint in ENDPOINTS:
        send = partial(ask, daemon, token, endpoint.method)
        if not endpoint.body:
            yield endpoint.name, partial(_queries, send, endpoint)
        elif endpoint.tool.name not in called:
            if endpoint.tool.largest not in sizes:
                yield f"bodies of {endpoint.name}", partial(_bodies, send, endpoint)
            yield f"parameters of {endpoint.name}", partial(_parameters, send, endpoint)
            sizes.add(endpoint.tool.largest)
            called.add(endpoint.tool.name)


def _queries(send: Callable[[str], object], endpoint: Endpoint) -> Iterator[Sent]:
    for query in worst_queries(endpoint):
        yield query[:40], partial(send, f"{path_of(endpoint)}?{query}")


def _bodies(send: Callable[[str, bytes], object], endpoint: Endpoint) -> Iterator[Sent]:
    for name, value in worst_values(endpoint.tool.largest - 100):
        yield name, partial(send, path_of(endpoint), b'{"more":' + value + b"}")


def _parameters(send: Callable[[str, bytes], object], endpoint: Endpoint) -> Iterator[Sent]:
    for name, body in worst_parameters(endpoint.tool, endpoint.example):
        yield name, partial(send, path_of(endpoint), body)


def _mcp(daemon: Daemon, token: str) -> Iterator[tuple[str, Group]]:
    headers = [("Accept", "application/json, text/event-stream"), ("MCP-Protocol-Version", "2025-06-18")]

    def send(body: bytes) -> Answer:
        return ask(daemon, token, "POST", "/mcp?tools=all", body, headers)

    client = b'{"protocolVersion":"2025-06-18","capabilities":%b,"clientInfo":{"name":"test","version":"1"}}'
    opened = send(_message("initialize", client % b"{}"))
    headers.append(("Mcp-Session-Id", opened.headers["mcp-session-id"]))
    places = {
        "message": b"%b",
        "batch": b"[%b]",
        "method": b'{"jsonrpc":"2.0","id":1,"method":%b}',
        "id": b'{"jsonrpc":"2.0","id":%b,"method":"ping"}',
        "params": _message("tools/list", b"%b"),
        "name": _message("tools/call", b'{"name":%b}'),
        "arguments": _message("tools/call", b'{"name":"push","arguments":%b}'),
        "argument": _message("tools/call", b'{"name":"push","arguments":{"items":%b}}'),
        "uri": _message("resources/read", b'{"uri":%b}'),
        "meta": _message("tools/call", b'{"name":"metrics","arguments":{},"_meta":%b}'),
        "capabilities": _message("initialize", client),
        "result": b'{"jsonrpc":"2.0","id":1,"result":%b}',
        "notification": b'{"jsonrpc":"2.0","method":"notifications/progress","params":%b}',
    }

    def messages(place: str) -> Iterator[Sent]:
        for name, value in worst_values(MESSAGE, few=place not in {"message", "argument"}):
            yield name, partial(send, places[place].replace(b"%b", value))

    for place in places:
        yield f"the {place} of a message of MCP", partial(messages, place)


def _message(method: str, parameters: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"method":"%b","params":%b}' % (method.encode(), parameters)


def _deliveries(daemon: Daemon) -> Iterator[tuple[str, Group]]:
    numbers = count()

    def send(name: str, body: bytes, media: str = "application/json", coding: str = "identity") -> None:
        sent = _compressed(body) if coding == "gzip" else body
        row, options = ("token", None) if name == "plain" else ("custom", {"compressed": "sent"})
        signed = sign(row, SECRET, sent, now=time.time(), delivery_id=str(next(numbers)), options=options)
        headers = [each for each in signed if each[0].lower() != "content-type"]
        headers += [("Content-Type", media), ("Content-Encoding", coding)]
        with suppress(OSError):
            daemon.request("POST", f"/hooks/{name}", sent, headers)

    for name in ("plain", *FILTERS):
        yield f"the webhook {name}", partial(_bodies_of_webhook, partial(send, name), few=name != "filtered")
    yield "forms", partial(_forms, partial(send, "filtered"))
    yield "compressed bodies", partial(_compressed_bodies, partial(send, "filtered", coding="gzip"))


def _bodies_of_webhook(send: Send, *, few: bool) -> Iterator[Sent]:
    for kind, value in worst_values(BODY, payload.MOST_IN_ONE, few=few):
        yield kind, partial(send, value)
    yield "objects", partial(send, _objects(payload.MOST_VALUES))
    yield "object", partial(send, b'{"a":"' + b"x" * BODY + b'"}')


def _forms(send: Callable[[bytes, str], object]) -> Iterator[Sent]:
    for kind, unit in {"pluses": b"+", "escapes": b"%C3%A9", "bad escapes": b"%f", "fields": b"a=1&"}.items():
        yield kind, partial(send, b"a=" + unit * (BODY // len(unit)), "application/x-www-form-urlencoded")
    pieces = {"text": b"x", "bad text": b"\xff", "line ends": b"\r\n--", "parts": _PART + b"x\r\n"}
    for kind, piece in pieces.items():
        body = _PART + piece * (BODY // len(piece)) + b"\r\n--b--\r\n"
        yield f"parts of {kind}", partial(send, body, "multipart/form-data; boundary=b")


def _compressed_bodies(send: Send) -> Iterator[Sent]:
    for kind, value in worst_values(BODY, payload.MOST_IN_ONE, few=True):
        yield kind, partial(send, value)


def _objects(values: int) -> bytes:
    """Return lists of small objects, with so many values."""
    each = b'{"a":"%s","b":[]}' % (b"x" * max(0, 4 * BODY // values - 20))
    lists = b"[" + b",".join([each] * 20_000) + b"]"
    return b"[" + b",".join([lists] * (values // 80_001)) + b"]"


_PART: Final = b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n'


def _answers(daemon: Daemon, token: str, services: RawAnswers) -> dict[str, Group]:
    """Return groups of answers of the services that an agent uses."""

    def chat(*replies: bytes, agent: str = "thinker", result: bytes = b"{}", media: str = "application/json") -> None:
        services.replies, services.media, services.result = [*replies], media, result
        done = ask(daemon, token, "POST", f"/v1/agents/{agent}/chat", {"input": "hello", "wait": 60})
        assert done.status == 200, done

    def results() -> Iterator[Sent]:
        for kind, value in worst_values(ANSWER, MOST_VALUES):
            yield f"content of {kind}", partial(chat, said(CALL), result=b'{"content":[%b]}' % value)
            structured = b'{"content":[],"structuredContent":{"a":%b}}' % value
            yield f"structured {kind}", partial(chat, said(CALL), result=structured)

    def replies() -> Iterator[Sent]:
        for kind, value in worst_values(ANSWER):
            yield f"answer of {kind}", partial(chat, value)
        yield "answer of lists", partial(chat, b"[" + b"[]," * (ANSWER // 3) + b"0]")
        for text in ("x", '{"messages":["', '{"a":', "[", "<think>", "```json\n", '"', "\n"):
            yield f"reply of {text!r}", partial(chat, said(text * (ANSWER // 2 // len(text))))

    def streams() -> Iterator[Sent]:
        stream = partial(chat, agent="streamed", media="text/event-stream")
        for kind, delta in {
            "fragments of arguments": '{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}',
            "texts": '{"content":"a"}',
        }.items():
            event = b'data: {"choices":[{"delta":%b}]}\n\n' % delta.encode()
            yield kind, partial(stream, event * 50_000 + b"data: [DONE]\n\n")
        whole = b'data: {"choices":[{"delta":{"content":"%b"}}]}\n\ndata: [DONE]\n\n'
        yield "one text", partial(stream, whole % (b"x" * ANSWER))
        yield "line ends", partial(stream, b"\n" * (ANSWER // 8))

    return {"results of a tool": results, "replies of a model": replies, "streams of a model": streams}


def _heads(daemon: Daemon, token: str) -> Iterator[tuple[str, Group]]:
    """Yield a group for each listener: requests whose heads are as large as they may be."""
    limits = HttpLimits()
    room, fields = limits.head - 2000, limits.fields - 10
    headers = {
        "many headers": [(f"X-{number}", "x" * (room // fields - 20)) for number in range(fields)],
        "repeated headers": [("Accept", "a/b;q=0.1," * 30)] * fields,
        "cookies": [("Cookie", "a=b; " * (room // 5))],
        "types": [("Accept", "a/b, " * (room // 5))],
        "tags": [("If-None-Match", '"a",' * (room // 4))],
        "language": [("Content-Type", "application/json" + ';a="b"' * (room // 6))],
        "token": [("Authorization", "Bearer " + "a" * room)],
        "addresses": [("X-Forwarded-For", "1.2.3.4, " * (room // 9)), ("Forwarded", "for=1.2.3.4;" * 10)],
    }
    paths = {"slashes": "/" * 7000, "escapes": "/v1/" + "%2f" * 2300, "names": "/v1/memory/" + "a" * 7000}

    def requests(to: str) -> Iterator[Sent]:
        target = "/hooks/plain" if to == "public" else "/v1/memory"
        for name, more in headers.items():
            yield name, partial(daemon.request, "POST", target, b"{}", more, to=to)
            bearer = [] if name == "token" else [("Authorization", f"Bearer {token}")]
            yield f"{name} of MCP", partial(daemon.request, "POST", "/mcp", b"{}", more + bearer, to=to)
        for name, path in paths.items():
            yield name, partial(daemon.request, "GET", path, to=to)

    for to in ("public", "admin"):
        yield f"heads of the {to} listener", partial(requests, to)


@cache
def _compressed(body: bytes) -> bytes:
    return gzip.compress(body, 1)

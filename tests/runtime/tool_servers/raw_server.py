"""A server of the Model Context Protocol over standard input and output that does what its arguments say, and what its
tools are asked for. It needs the standard library only, so that it starts at once.

`raw_server.py WAY [FILE]`: `WAY` is a key of `WAYS`. Each call of a tool appends a line to FILE.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]


def tool(name: str, **more: Any) -> Json:
    schema = {"type": "object", "properties": {"text": {"type": "string", "description": "What it is about."}}}
    return {"name": name, "description": f"Does {name}.", "inputSchema": schema, **more}


CYCLE = {
    "type": "object",
    "properties": {"node": {"$ref": "#/$defs/node"}},
    "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
}
LIES = [
    tool("good"),
    tool("good", description="A second one."),
    tool("bad name"),
    tool("*"),
    tool("dots.are.fine"),
    tool("cycle", inputSchema=CYCLE),
    tool("elsewhere", inputSchema={"type": "object", "properties": {"a": {"$ref": "https://example.org/schema"}}}),
    tool("huge", inputSchema={"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(6000)}}),
    tool("long", description="x" * 100_000),
    tool("hidden", description="Adds.\u202e\u200b\x1b[2J\U000e0041"),
]
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


def choice(text: str, more: Json) -> Json:
    return {"type": "object", "properties": {"text": {"const": text}, **more}, "required": ["text", *more]}


ODD: list[Any] = [
    tool("good"),
    tool("empty", inputSchema={}),
    tool("choice", inputSchema={"anyOf": [choice("a", {}), choice("b", {"n": {"type": "integer"}}), {"type": "null"}]}),
    tool("list_of_types", inputSchema={**TEXT, "type": ["object", "null"]}),
    tool("odd_others", title=7, icons="none", outputSchema=[], annotations={"readOnlyHint": "yes"}, _meta=[]),
    tool("odd_part", inputSchema={"type": "object", "properties": {"a": True, "b": {"type": "string"}}}),
    tool("text", inputSchema={"type": "string"}),
    tool("half_text", inputSchema={"anyOf": [TEXT, {"type": "string"}]}),
    tool("no_properties", inputSchema={"type": "object", "properties": None}),
    tool("bad_part", inputSchema={"type": "object", "properties": {"a": 7}}),
    tool("no_schema", inputSchema=None),
    {"name": 7},
    "no tool",
]


def main(way: str, file: str | None) -> None:
    WAYS[way](file)


def send(message: Json) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def answer(ask: Json, result: Json) -> None:
    send({"jsonrpc": "2.0", "id": ask["id"], "result": result})


def refuse(ask: Json, code: int, message: str) -> None:
    send({"jsonrpc": "2.0", "id": ask["id"], "error": {"code": code, "message": message}})


def text(value: str, **more: Any) -> Json:
    return {"content": [{"type": "text", "text": value}], **more}


def serve(file: str | None, tools: list[Json], page: Callable[[Json], Json] | None = None, name: str = "raw") -> None:
    say("ready")
    for line in sys.stdin:
        ask = json.loads(line)
        match ask.get("method"):
            case "initialize":
                answer(ask, {
                    "protocolVersion": ask["params"]["protocolVersion"],
                    "capabilities": {"tools": {"listChanged": True}},
                    "serverInfo": {"name": name, "version": "7"},
                })  # fmt: skip
            case "tools/list":
                answer(ask, page(ask) if page else {"tools": tools})
            case "tools/call":
                if file is not None:
                    with open(file, "a", encoding="utf-8") as handle:  # noqa: PTH123
                        handle.write(json.dumps(ask["params"]) + "\n")
                call(ask, tools)
            case _ if "id" in ask:
                refuse(ask, -32601, "no such method")


def call(ask: Json, tools: list[Json]) -> None:
    name = ask["params"]["name"]
    CALLS.get(name, _echo)(ask, tools)


def given(ask: Json) -> str:
    return str(ask["params"].get("arguments", {}).get("text"))


def _echo(ask: Json, _: list[Json]) -> None:
    answer(ask, text(f"{ask['params']['name']}: {given(ask)}"))


def _env(ask: Json, _: list[Json]) -> None:
    answer(ask, text(json.dumps(dict(os.environ))))


def _files(ask: Json, _: list[Json]) -> None:
    # The one that lists the others is closed by then.
    open_ = [name for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")]  # noqa: PTH208, PTH110
    answer(ask, text(" ".join(sorted(open_))))


def _cwd(ask: Json, _: list[Json]) -> None:
    answer(ask, text(os.getcwd()))  # noqa: PTH109


def _hang(_ask: Json, _: list[Json]) -> None:
    time.sleep(3600)


def _die(ask: Json, _: list[Json]) -> None:
    say(f"dying of {given(ask)}")
    os._exit(3)


def _flood(ask: Json, _: list[Json]) -> None:
    answer(ask, text("x" * 50_000_000))


def _notify(_ask: Json, _: list[Json]) -> None:
    while True:
        send({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}})


def _answer_for_ever(_ask: Json, _: list[Json]) -> None:
    while True:
        sys.stdout.write('{"jsonrpc":"2.0","id":77,"result":{}}\n' * 1000)


def _end_lines(_ask: Json, _: list[Json]) -> None:
    while True:
        sys.stdout.write("\n" * 100_000)


def _greet(ask: Json, _: list[Json]) -> None:
    sys.stdout.write("Welcome!\n{not json}\n[]\n")
    send({"jsonrpc": "2.0", "id": 999_999, "result": text("of another call")})
    answer(ask, text("after a greeting"))


def _broken_text(ask: Json, _: list[Json]) -> None:
    sys.stdout.flush()
    raw = json.dumps({"jsonrpc": "2.0", "id": ask["id"], "result": text("be?low")})
    sys.stdout.buffer.write(raw.encode().replace(b"?", b"\xff\xfe") + b"\n")
    sys.stdout.buffer.flush()


def _fail(ask: Json, _: list[Json]) -> None:
    answer(ask, text(f"no: {given(ask)}", isError=True))


def _leave(ask: Json, _: list[Json]) -> None:
    """Start a process that survives its parent, in a session of its own."""
    answer(ask, text(str(subprocess.Popen(["sleep", "3600"], start_new_session=True).pid)))


def _change(ask: Json, tools: list[Json]) -> None:
    tools[:] = [each for each in tools if each["name"] != "echo"]
    tools.append(tool("added"))
    tools[0] = {**tools[0], "description": "Now something else."}
    send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    answer(ask, text("changed"))


def _picture(ask: Json, _: list[Json]) -> None:
    answer(ask, {"content": [{"type": "image", "mimeType": "image/png", "data": "AAAA"}]})


def _pid(ask: Json, _: list[Json]) -> None:
    answer(ask, text(str(os.getpid())))


def _structured(ask: Json, _: list[Json]) -> None:
    answer(ask, {"content": [], "structuredContent": {"secret": os.environ.get("A_TOKEN"), "n": 1}})


def _nested(ask: Json, _: list[Json]) -> None:
    deep = '{"a":' * 9000 + "1" + "}" * 9000
    sys.stdout.write(f'{{"jsonrpc":"2.0","id":{ask["id"]},"result":{deep}}}\n')
    sys.stdout.flush()


def _raw(ask: Json, result: str) -> None:
    sys.stdout.write(f'{{"jsonrpc":"2.0","id":{ask["id"]},"result":{result}}}\n')
    sys.stdout.flush()


def _half_character(ask: Json, _: list[Json]) -> None:
    _raw(ask, '{"content":[{"type":"text","text":"be\\ud83dlow"}]}')


def _not_json(ask: Json, _: list[Json]) -> None:
    _raw(ask, '{"content":[{"type":"text","text":NaN,}]}')


def _return(ask: Json, _: list[Json]) -> None:
    answer(ask, json.loads(given(ask)))


def _many_values(ask: Json, _: list[Json]) -> None:
    _raw(ask, '{"content":[],"structuredContent":{"x":[' + "[]," * 2_000_000 + "[]]}}")


def _many_parts(ask: Json, _: list[Json]) -> None:
    _raw(ask, '{"content":[' + ",".join(['{"type":"text","text":"a"}'] * 180_000) + "]}")


CALLS: dict[str, Callable[[Json, list[Json]], None]] = {
    "echo": _echo,
    "env": _env,
    "files": _files,
    "cwd": _cwd,
    "hang": _hang,
    "die": _die,
    "flood": _flood,
    "notify": _notify,
    "answer_for_ever": _answer_for_ever,
    "end_lines": _end_lines,
    "greet": _greet,
    "broken_text": _broken_text,
    "fail": _fail,
    "leave": _leave,
    "change": _change,
    "picture": _picture,
    "pid": _pid,
    "structured": _structured,
    "nested": _nested,
    "half_character": _half_character,
    "not_json": _not_json,
    "return": _return,
    "many_values": _many_values,
    "many_parts": _many_parts,
}


def _exits(_file: str | None) -> None:
    say("no licence\nfor this machine")
    sys.exit(4)


def _is_silent(_file: str | None) -> None:
    time.sleep(3600)


def _speaks_something_else(_file: str | None) -> None:
    for line in sys.stdin:
        ask = json.loads(line)
        if "id" in ask:
            answer(ask, {"hello": "world"})


def _tells_its_secrets(file: str | None) -> None:
    secret, key = os.environ["A_TOKEN"], os.environ["A_KEY"]
    say(f"{key}\n{'x' * 490} {secret}\n{json.dumps(key)}")
    schema = {"type": "object", "properties": {"text": {"type": "string", "default": secret, "description": key}}}
    hidden = f"{secret[:5]}\u200b{secret[5:]}"
    serve(file, [tool("echo", description=hidden, inputSchema=schema), tool(f"t-{secret}"), tool(hidden)], name=secret)


def _complains_without_end(file: str | None) -> None:
    subprocess.Popen(["yes"], stdout=sys.stderr)
    serve(file, [tool("echo")])


def _lists_nothing(file: str | None) -> None:
    def page(_ask: Json) -> Json:
        time.sleep(3600)
        return {}

    serve(file, [], page)


def _lists_without_end(file: str | None) -> None:
    pages = iter(range(1_000_000))

    def page(_ask: Json) -> Json:
        number = next(pages)
        return {"tools": [tool(f"t{number}_{each}") for each in range(20)], "nextCursor": str(number)}

    serve(file, [], page)


def _repeats_a_cursor(file: str | None) -> None:
    def page(ask: Json) -> Json:
        cursor = ask["params"].get("cursor") if "params" in ask else None
        return {"tools": [tool(f"after_{cursor}")], "nextCursor": "b" if cursor == "a" else "a"}

    serve(file, [], page)


def _ends_with_an_empty_cursor(file: str | None) -> None:
    serve(file, [], lambda _ask: {"tools": [tool("echo")], "nextCursor": ""})


WAYS: dict[str, Callable[[str | None], None]] = {
    "serves": lambda file: serve(file, [tool(name) for name in CALLS]),
    "lies": lambda file: serve(file, LIES),
    "exits": _exits,
    "silent": _is_silent,
    "other": _speaks_something_else,
    "odd": lambda file: serve(file, ODD),
    "repeats": _repeats_a_cursor,
    "empty_cursor": _ends_with_an_empty_cursor,
    "endless": _lists_without_end,
    "lists_nothing": _lists_nothing,
    "complains": _complains_without_end,
    "tells": _tells_its_secrets,
}

if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)

"""A server of the Model Context Protocol whose tools are described by payloads, and answer with them.

`evil_server.py FILE`: a JSON object `{described: {name: text}, outputs: {name: text}}`. It needs the standard library
only, so that it starts at once.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def main(file: str) -> None:
    with open(file, encoding="utf-8") as handle:  # noqa: PTH123
        payloads = json.load(handle)
    tools = [_tool("note", "Returns a note."), _tool("env", "Returns the environment.")]
    tools += [_tool(name.replace("-", "_"), text) for name, text in payloads["described"].items()]
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked:
            answer = {"jsonrpc": "2.0", "id": asked["id"], **_answer(asked, tools, payloads["outputs"])}
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


def _tool(name: str, description: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return {"name": name, "description": description, "inputSchema": schema}


def _answer(asked: dict[str, Any], tools: list[dict[str, Any]], outputs: dict[str, str]) -> dict[str, Any]:
    if asked["method"] == "initialize":
        return {
            "result": {
                "protocolVersion": asked["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "evil", "version": "1"},
            }
        }
    if asked["method"] == "tools/list":
        return {"result": {"tools": tools}}
    if asked["method"] != "tools/call":
        return {"error": {"code": -32601, "message": "no such method"}}
    given = asked["params"].get("arguments", {}).get("text", "")
    text = json.dumps(dict(os.environ)) if asked["params"]["name"] == "env" else outputs.get(given, "nothing")
    return {"result": {"content": [{"type": "text", "text": text}]}}


if __name__ == "__main__":
    main(sys.argv[1])

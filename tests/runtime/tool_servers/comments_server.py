"""A server of the SDK over standard input and output whose tool writes comments into a file, durably, a line each.

`comments_server.py FILE`: while there is a file `FILE.before` or `FILE.after`, a call does not end, before or after it
has written its comment.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer

FILE = Path(sys.argv[1])
server = MCPServer("comments")


async def held(when: str) -> None:
    mark = FILE.with_suffix(f".{when}")
    if mark.exists():
        mark.write_text(str(os.getpid()))
        await asyncio.sleep(3600)


@server.tool()
async def create_comment(pull: int, body: str) -> str:
    """Write a comment to a pull request."""
    await held("before")
    with FILE.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"pull": pull, "body": body}) + "\n")
        file.flush()
        os.fsync(file.fileno())
    await held("after")
    return f"commented on {pull}"


if __name__ == "__main__":
    server.run()

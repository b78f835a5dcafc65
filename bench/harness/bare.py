"""A bare aiohttp server: reads the body and answers 202. `python -m bench.harness.bare PORT [uvloop]`."""

from __future__ import annotations

import sys

import uvloop
from aiohttp import web

ANSWER = b'{"delivery_id":"00000000-0000-0000-0000-000000000000"}'


async def answer(request: web.Request) -> web.Response:
    await request.read()
    return web.Response(body=ANSWER, status=202, content_type="application/json")


def main() -> None:
    application = web.Application()
    application.router.add_post("/hooks/github", answer)
    loop = uvloop.new_event_loop() if "uvloop" in sys.argv else None
    web.run_app(application, host="127.0.0.1", port=int(sys.argv[1]), print=None, access_log=None, loop=loop)


if __name__ == "__main__":
    main()

"""`symbi` whose tool `webhook_create` does not return, so that the daemon can be killed in the middle of a call.

`HELD`: `before`, the webhook is not created; or `after`, it is. `HELD_FILE` is made when the tool holds.
"""

from __future__ import annotations

import asyncio
import os
from functools import wraps
from pathlib import Path
from typing import Any

from runtime.cli import main
from runtime.tools.toolset import ALL_TOOLS


def held() -> None:
    """Run `symbi` with the tool."""
    tool = ALL_TOOLS["webhook_create"]
    create = tool.function

    @wraps(create)
    async def hold(*given: Any, **named: Any) -> Any:
        if os.environ["HELD"] == "after":
            await create(*given, **named)
        Path(os.environ["HELD_FILE"]).touch()
        await asyncio.Event().wait()

    tool.function = hold
    main()

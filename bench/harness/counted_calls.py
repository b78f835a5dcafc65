"""`symbi` in this process, with its Python calls counted while a file exists."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Final

from runtime.cli import main

SWITCH: Final = "CALLS_SWITCH"
"""Environment variable: the file that exists while calls are counted."""
ROOT: Final = f"{Path(__file__).parents[2]}/"
_OURS: Final = (f"{ROOT}runtime/", f"{ROOT}dslc/")


class Profile:
    """Calls in this process by file and function, while it is on."""

    def __init__(self) -> None:
        self.on = False
        self.calls = Counter[tuple[str, str]]()

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        """Count a call; installed with `sys.setprofile`."""
        if self.on and event == "call" and frame.f_code.co_filename.startswith(_OURS):
            self.calls[frame.f_code.co_filename.removeprefix(ROOT), frame.f_code.co_qualname] += 1

    def follow(self, switch: Path) -> None:
        """Count while the file `switch` exists, and write the counts beside it whenever it is gone again."""
        while True:
            time.sleep(0.005)
            if self.on and not switch.exists():
                self.on = False
                written = switch.with_suffix(".part")
                written.write_text(json.dumps([[*key, count] for key, count in self.calls.items()]))
                written.rename(switch.with_suffix(".json"))
                self.calls = Counter()
            self.on = switch.exists()


if __name__ == "__main__":
    profile = Profile()
    threading.Thread(target=profile.follow, args=(Path(os.environ.pop(SWITCH)),), daemon=True).start()
    threading.setprofile(profile)
    sys.setprofile(profile)
    main()

"""How to install an optional part. The name of this distribution belongs to somebody else on PyPI, so hints name the
packages that a part consists of."""

from __future__ import annotations

import shlex
import sys
from functools import cache
from importlib import metadata


@cache
def install(extra: str) -> str:
    """The command that adds what `extra` of pyproject.toml holds to the environment of this process."""
    try:
        wanted = metadata.requires("symbiont") or []
    except metadata.PackageNotFoundError:
        wanted = []
    packages = [
        requirement.strip()
        for requirement, _, marker in (each.partition(";") for each in wanted)
        if f'extra == "{extra}"' in marker.replace("'", '"')
    ]
    # Without its metadata this runs from a checkout that was never installed.
    arguments = [shlex.quote(package) for package in packages] or [f"--editable '.[{extra}]'"]
    return f"{shlex.quote(sys.executable)} -m pip install {' '.join(arguments)}"

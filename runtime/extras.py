"""Installation hints for optional dependencies. They name packages, because this distribution's name belongs to another
project on PyPI."""

from __future__ import annotations

import shlex
import sys
from functools import cache
from importlib import metadata


@cache
def install(extra: str) -> str:
    """Return the command that installs the packages of `extra` (pyproject.toml) into the environment of this
    process."""
    try:
        wanted = metadata.requires("symbiont") or []
    except metadata.PackageNotFoundError:
        wanted = []
    packages = [
        requirement.strip()
        for requirement, _, marker in (each.partition(";") for each in wanted)
        if f'extra == "{extra}"' in marker.replace("'", '"')
    ]
    # Without metadata this is a checkout that was never installed.
    arguments = [shlex.quote(package) for package in packages] or [f"--editable '.[{extra}]'"]
    return f"{shlex.quote(sys.executable)} -m pip install {' '.join(arguments)}"

"""How a file is called inside the project that a build system has checked out."""

from __future__ import annotations

import os
from urllib.parse import quote

_CHECKOUTS = ("GITHUB_WORKSPACE", "CI_PROJECT_DIR")
"""Where GitHub and GitLab tell a job which folder their paths are relative to."""


def path_in_project(name: str) -> str:
    """A file's path relative to the checkout when the current folder is in one, else to the current folder.

    Absolute when it lies outside. The separator is `/`. What is no file (`<stdin>`) keeps its name.
    """
    if name.startswith("<") and name.endswith(">"):
        return name
    path = os.path.normpath(os.path.join(_here(), os.path.relpath(name)))  # noqa: PTH118 - links keep their own names
    if _outside(path):
        path = os.path.abspath(name)  # noqa: PTH100
    return path.replace(os.sep, "/")


def _here() -> str:
    """The current folder, relative to the checkout it is in."""
    for variable in _CHECKOUTS:
        root = os.environ.get(variable)
        if root:
            here = os.path.relpath(os.path.realpath(os.curdir), os.path.realpath(root))
            if not _outside(here):
                return here
    return os.curdir


def _outside(relative: str) -> bool:
    return relative == os.pardir or relative.startswith(os.pardir + os.sep)


def uri_in_project(name: str) -> str:
    """`path_in_project` as a URI reference (RFC 3986), its bytes percent-encoded; a `file:` URI when it is absolute."""
    path = path_in_project(name)
    try:
        encoded = quote(os.fsencode(path), safe="/")
    except UnicodeEncodeError:  # no file is called so
        encoded = quote(path, safe="/", errors="replace")
    return f"file://{encoded}" if path.startswith("/") else encoded

"""Paths of files relative to the project that a CI system has checked out."""

from __future__ import annotations

import os
from urllib.parse import quote

_CHECKOUTS = ("GITHUB_WORKSPACE", "CI_PROJECT_DIR")
"""Environment variables of GitHub and GitLab with the folder to which paths in reports are relative."""


def path_in_project(name: str) -> str:
    """Return a file's path relative to the checkout if the current folder is in one, else to the current folder.

    A path outside is absolute. The separator is `/`. A name that is not a file (`<stdin>`) is returned unchanged.
    """
    if name.startswith("<") and name.endswith(">"):
        return name
    path = os.path.normpath(os.path.join(_here(), os.path.relpath(name)))  # noqa: PTH118 - links keep their own names
    if _outside(path):
        path = os.path.abspath(name)  # noqa: PTH100
    return path.replace(os.sep, "/")


def _here() -> str:
    """Current folder, relative to its checkout."""
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
    """Return `path_in_project` as a percent-encoded URI reference (RFC 3986); a `file:` URI if it is absolute."""
    path = path_in_project(name)
    try:
        encoded = quote(os.fsencode(path), safe="/")
    except UnicodeEncodeError:  # not the name of a real file
        encoded = quote(path, safe="/", errors="replace")
    return f"file://{encoded}" if path.startswith("/") else encoded

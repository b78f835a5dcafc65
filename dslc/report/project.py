"""Paths of files relative to the project that a CI system has checked out."""

from __future__ import annotations

import os
from urllib.parse import quote

_CHECKOUTS = ("GITHUB_WORKSPACE", "CI_PROJECT_DIR")
"""Environment variables of GitHub and GitLab with the folder to which paths in reports are relative."""


def path_in_project(name: str) -> str:
    """Return a file's path relative to the checkout if the file is in one, else to the current folder.

    A path outside is absolute. The separator is `/`. A name that is not a file (`<stdin>`) is returned unchanged.
    """
    if name.startswith("<") and name.endswith(">"):
        return name
    # Links in the checkout keep their own names; those of the folders above it may differ.
    given = os.path.abspath(name)  # noqa: PTH100
    checkouts = [root for variable in _CHECKOUTS if (root := os.environ.get(variable))]
    for root in (*checkouts, *map(os.path.realpath, checkouts), os.curdir):
        for path in (given, os.path.normpath(os.path.join(os.path.realpath(os.curdir), name))):  # noqa: PTH118
            relative = os.path.relpath(path, root)
            if not _is_outside(relative):
                return relative.replace(os.sep, "/")
    return given.replace(os.sep, "/")


def _is_outside(relative: str) -> bool:
    return relative == os.pardir or relative.startswith(os.pardir + os.sep)


def uri_in_project(name: str) -> str:
    """Return `path_in_project` as a percent-encoded URI reference (RFC 3986); a `file:` URI if it is absolute."""
    path = path_in_project(name)
    try:
        encoded = quote(os.fsencode(path), safe="/")
    except UnicodeEncodeError:  # not the name of a real file
        encoded = quote(path, safe="/", errors="replace")
    return f"file://{encoded}" if path.startswith("/") else encoded

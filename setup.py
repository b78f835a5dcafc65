"""The part of the build that pyproject.toml cannot express: the optional parser for editors, `grammar._tree_sitter`.

Without a C compiler everything else is built and installed; `grammar.language` then raises an error that says what is
missing.
"""

from __future__ import annotations

import sysconfig

from setuptools import Extension, setup

# A single build works on every CPython from 3.11 on. Free-threaded interpreters do not have this interface yet.
STABLE = not sysconfig.get_config_var("Py_GIL_DISABLED")

setup(
    ext_modules=[
        Extension(
            "grammar._tree_sitter",
            sources=["grammar/binding.c", "grammar/src/parser.c"],
            include_dirs=["grammar/src"],
            depends=["grammar/src/tree_sitter/parser.h"],
            define_macros=[("Py_LIMITED_API", "0x030B0000")] if STABLE else [],
            py_limited_api=STABLE,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if STABLE else {},
)

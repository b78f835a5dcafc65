"""The parts of the build that pyproject.toml cannot express: the commit, which is written into what is built and not
into the checkout, and the optional parser for editors, `grammar._tree_sitter`.

Without a C compiler everything else is built and installed; `grammar.language` then raises an error that says what is
missing.
"""

from __future__ import annotations

import runpy
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

# A single build works on every CPython from 3.11 on. Free-threaded interpreters do not have this interface yet.
STABLE = not sysconfig.get_config_var("Py_GIL_DISABLED")


class BuildPackages(build_py):
    """Builds the packages with the commit, if they are built from a checkout and do not stay in it."""

    def run(self) -> None:
        """Build."""
        super().run()
        commit = runpy.run_path("dslc/version.py")["commit"]()
        if commit is not None and not self.editable_mode:
            Path(self.build_lib, "dslc/_commit.py").write_text(f'COMMIT = "{commit}"\n')


setup(
    cmdclass={"build_py": BuildPackages},
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

"""Benchmarks, as ratios of figures that are measured in turns in one run."""

import os
import tempfile

# Roots are registered in the user's state folder; those of benchmarks in a temporary folder. Tests set their own.
_STATE_HOME = tempfile.TemporaryDirectory(prefix="symbiont-bench-")
os.environ.setdefault("XDG_STATE_HOME", _STATE_HOME.name)

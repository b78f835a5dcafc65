"""Measurements as ratios, taken side by side in one run."""

import os
import tempfile

# Roots are noted in the user's own folder; those of measurements are nobody's. The tests have named one already.
_STATE_HOME = tempfile.TemporaryDirectory(prefix="symbiont-bench-")
os.environ.setdefault("XDG_STATE_HOME", _STATE_HOME.name)

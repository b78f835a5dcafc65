"""Runs and their steps: what was about to be done, and what came of it."""

from runtime.threads.run_log import RunLog
from runtime.threads.step import StepUncertain, Superseded

__all__ = ["RunLog", "StepUncertain", "Superseded"]

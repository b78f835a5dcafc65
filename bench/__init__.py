"""Measurements as ratios, taken side by side in one run."""

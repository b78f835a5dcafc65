"""Compares two programs, and says what a reload does about the difference."""

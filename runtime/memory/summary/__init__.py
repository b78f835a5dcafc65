"""Items of some time, made into one (the fifth design, M9)."""

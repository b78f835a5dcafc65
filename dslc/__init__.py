"""The compiler of the .symbiont language."""

"""Pages of the diagnostic codes: meaning, reason, a wrong and a right example. The texts are in `pages/`."""

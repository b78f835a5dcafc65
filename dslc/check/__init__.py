"""Tree to typed program and diagnostics: names, types, bounds and references."""

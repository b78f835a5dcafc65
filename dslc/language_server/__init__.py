"""What an editor shows of a program: diagnostics, completion, hover, names, symbols, folds, fixes.

The modules here are pure: they take texts and a `Workspace` and give plain data whose places are indexes into the
text. Only `server`, `wire` and `stream` know the protocol, and only they import pygls.
"""

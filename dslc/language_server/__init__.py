"""Editor features: diagnostics, completion, hover, names, symbols, folding, fixes.

The modules of this folder take texts and a `Workspace` and return plain data with indexes into the text. Only the
package `protocol` knows the Language Server Protocol and imports pygls.
"""

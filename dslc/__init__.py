"""Compiler of the .symbiont language. `dslc.compiler.analyse` compiles sources; the core does no IO."""

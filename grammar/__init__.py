"""The grammars: one for the compiler, one for editors."""

; Capture names of Neovim and of Helix; each editor ignores those of the other.

[
  (body)
  (foreign_body)
  (parameters)
  (list)
] @indent.begin @indent

[
  "}"
  "]"
  ")"
] @indent.branch @indent.end @outdent

; The indentation inside a long string is not changed.
(long_string) @indent.auto

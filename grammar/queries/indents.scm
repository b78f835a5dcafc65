; Neovim's names and Helix' names, side by side; each editor passes over the other's.

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

; The inside of a long string is the author's.
(long_string) @indent.auto

[
  (body)
  (foreign_body)
  (parameters)
  (list)
  (long_string)
] @fold

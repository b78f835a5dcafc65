; Later patterns win over earlier ones.

(comment) @comment

(block kind: (word) @keyword)
(block name: (_) @type)
(foreign_block kind: (word) @keyword)
(foreign_block name: (_) @type)

(group key: (word) @module)
(setting key: (word) @property)
(variant key: (word) @property)

; A word as a value is a member of an enumeration or a name that a block declares.
(setting value: (word) @constant)
(variant value: (word) @constant)
(list (word) @constant)
(setting
  key: (word) @_key
  value: (word) @type
  (#any-of? @_key "agent" "memory"))

(setting value: (word) @boolean
  (#any-of? @boolean "true" "false"))
(list (word) @boolean
  (#any-of? @boolean "true" "false"))

(number) @number

(setting value: [(string) (long_string)] @string)
(variant value: [(string) (long_string)] @string)
(list [(string) (long_string)] @string)
(foreign_body [(string) (long_string)] @string)
(parameters (string) @string)
(escape_sequence) @string.escape

(setting value: (string (string_content) @string.special.url)
  (#match? @string.special.url "^(secret|vault|https?)://"))

["{" "}" "[" "]" "(" ")"] @punctuation.bracket
"," @punctuation.delimiter

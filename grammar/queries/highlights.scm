; Later patterns override earlier ones.

(comment) @comment

(block kind: (word) @keyword)
(block name: (_) @type)
(foreign_block kind: (word) @keyword)
(foreign_block name: (_) @type)

(group key: (_) @module)
(setting key: (_) @property)
(foreign_setting key: (_) @property)
(variant key: (_) @property)

; A word as a value is highlighted like a member of an enumeration.
(setting value: (word) @constant)
(variant value: (word) @constant)
(list (word) @constant)
(setting value: (word) @constant.builtin.boolean
  (#any-of? @constant.builtin.boolean "true" "false"))
(list (word) @constant.builtin.boolean
  (#any-of? @constant.builtin.boolean "true" "false"))

(number) @number

(setting value: [(string) (long_string)] @string)
(variant value: [(string) (long_string)] @string)
(list [(string) (long_string)] @string)
(foreign_body [(string) (long_string)] @string)
(parameters (string) @string)
(escape_sequence) @string.escape

; Names of other blocks, highlighted like their declarations.
(setting
  key: (word) @property
  value: [(word) (string)] @type
  (#any-of? @property "agent" "memory"))

([
  (setting value: (string (string_content) @string.special.url))
  (list (string (string_content) @string.special.url))
] (#match? @string.special.url "^(secret|vault|file|https?)://"))

["{" "}" "[" "]" "(" ")"] @punctuation.bracket
"," @punctuation.delimiter

; Names are shared by all files of a program; a word and a quoted string with the same text are the same name.

(source_file) @local.scope

(block name: (word) @local.definition.type)
(block name: (string (string_content) @local.definition.type))
(foreign_block kind: (word) @_kind name: (word) @local.definition.type
  (#eq? @_kind "agent"))

(setting
  key: (word) @_key
  value: [(word) @local.reference (string (string_content) @local.reference)]
  (#any-of? @_key "agent" "memory"))

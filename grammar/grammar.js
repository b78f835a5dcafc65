/**
 * Grammar for editors. The same language as symbiont.lark, the compiler's grammar; tests compare the two.
 *
 * A newline is a token, so that a value is on the line of its key and `{` on the line of its head;
 * `repeat($._newline)` in a rule allows any white space. One comma is accepted after a value, never after `}`.
 *
 * `make grammar` writes src/ from this file.
 */

/// <reference types="tree-sitter-cli/dsl" />
// @ts-check

// Lexical precedence: inside a string, text has precedence over blanks and comments, which are allowed between tokens.
const INSIDE = 1;

const ELSEWHERE = ["metadata", "policy", "schedule", "channel", "function"];

// What an agent of the wider language without parameters has; this language has no settings of these names.
const PARTS = ["policy", "function", "with"];
const CAPABILITIES = "capabilities";

export default grammar({
  name: "symbiont",

  extras: ($) => [/[ \t]+/, $.comment],

  word: ($) => $.word,

  inline: ($) => [$._agent_key],

  // `policy p {` in an agent: what follows decides.
  conflicts: ($) => [[$._value, $._foreign_part]],

  rules: {
    source_file: ($) =>
      seq(
        repeat(choice($._newline, $.block, $.foreign_block, seq(alias($._type_line, $.foreign_block), $._newline))),
        optional(alias($._type_line, $.foreign_block)),
      ),

    // ---- Blocks that are compiled

    block: ($) =>
      choice(
        seq(field("kind", $.word), optional(field("name", $._name)), field("body", $.body)),
        seq($._agent, optional(field("name", $._name)), field("body", alias($._agent_body, $.body))),
      ),

    // `agent name (` opens a block of the wider language.
    _agent: ($) => field("kind", alias("agent", $.word)),

    _name: ($) => choice($.word, $.string),

    body: ($) => seq("{", repeat(choice($._newline, $._entry)), "}"),

    _agent_body: ($) =>
      seq(
        "{",
        repeat(
          choice(
            $._newline,
            $._entry,
            alias($._agent_setting, $.setting),
            alias($._agent_variant, $.variant),
            alias($._agent_group, $.group),
            $.foreign_setting,
            alias($._foreign_part, $.foreign_block),
          ),
        ),
        "}",
      ),
    _agent_key: ($) => alias(choice(...PARTS, CAPABILITIES), $.word),
    _agent_setting: ($) => seq(field("key", $._agent_key), field("value", $._value), optional(",")),
    _agent_variant: ($) => prec.dynamic(1, seq(field("key", $._agent_key), field("value", $._value), field("body", $.body))),
    _agent_group: ($) => seq(field("key", $._agent_key), field("body", $.body)),
    foreign_setting: ($) =>
      seq(field("key", alias(CAPABILITIES, $.word)), choice(":", "="), field("value", $.list), optional(",")),
    _foreign_part: ($) =>
      seq(
        field("kind", alias(choice(...PARTS), $.word)),
        field("name", $.word),
        optional(seq(choice($.parameters, "="), repeat(choice($._head, "=", ")")))),
        field("body", $.foreign_body),
      ),

    _entry: ($) => choice($.setting, $.variant, $.group, seq('"""', $._nothing)),
    setting: ($) => seq(field("key", $._key), field("value", $._value), optional(",")),
    variant: ($) => seq(field("key", $._key), field("value", $._value), field("body", $.body)),
    group: ($) => seq(field("key", $._key), field("body", $.body)),

    // Only a key of a map may be quoted; the compiler reports it elsewhere, because the grammar does not know maps.
    _key: ($) => choice($.word, $.string),

    _value: ($) => choice($.word, $.string, $.long_string, $.number, $.list),
    list: ($) => seq("[", repeat($._newline), repeat($._item), "]"),
    _item: ($) => seq($._value, optional(seq(repeat($._newline), ",")), repeat($._newline)),

    // ---- Tokens

    word: () => /[A-Za-z_][A-Za-z0-9_-]*/,

    // Numbers, durations and sizes are one token; the type of the setting parses it.
    number: () => /-?[0-9][A-Za-z0-9_.]*/,

    string: ($) =>
      seq('"', repeat(choice($.string_content, $.escape_sequence)), token.immediate(prec(INSIDE, '"'))),
    string_content: () => token.immediate(prec(INSIDE, /[^"\\\n]+/)),
    // Any escape is accepted here and checked by the compiler.
    escape_sequence: () => token.immediate(prec(INSIDE, choice(/\\[^\n]/, /\\u[0-9A-Fa-f]{4}/))),

    long_string: ($) =>
      seq(
        '"""',
        repeat(choice(alias($._long_text, $.string_content), alias($._long_escape, $.escape_sequence))),
        token.immediate(prec(INSIDE, '"""')),
      ),
    // A quote is a separate token: as part of the text's token, a comment could match instead, because it is longer.
    _long_text: () => token.immediate(prec(INSIDE, choice(/[^"\\]+/, '"'))),
    _long_escape: () => token.immediate(prec(INSIDE, choice(/\\[\s\S]/, /\\u[0-9A-Fa-f]{4}/))),

    comment: () => token(seq(choice("#", "//"), /[^\n]*/)),

    _newline: () => /\r?\n/,

    // NUL, which is in no program. Without this alternative of an entry, a key """…""" would be read as the key "" and a value.
    _nothing: () => /\x00/,

    // ---- Blocks of the wider Symbiont language, of which only strings, comments and braces are parsed

    foreign_block: ($) =>
      choice(
        seq(
          field("kind", alias(choice(...ELSEWHERE), $.word)),
          optional(field("name", $._foreign_name)),
          repeat(choice($._head, "=", ")")),
          field("body", $.foreign_body),
        ),
        seq(
          $._agent,
          field("name", $._name),
          $.parameters,
          repeat(choice($._head, "=", ")")),
          field("body", $.foreign_body),
        ),
        seq($._type_head, field("body", $.foreign_body)),
        seq($._type_line, field("body", $.foreign_body)),
      ),

    _type_head: ($) =>
      seq(field("kind", alias("type", $.word)), optional(field("name", $._foreign_name)), repeat(choice($._head, ")"))),
    // `type A = B` may have no body.
    _type_line: ($) => seq($._type_head, "=", repeat(choice($._head, "=", ")"))),

    _foreign_name: ($) => prec(1, choice($.word, alias($._foreign_string, $.string))),

    _head: ($) => choice($.word, alias($._foreign_string, $.string), $.parameters, $._sign, '"', "/"),
    _sign: () => /[^A-Za-z_ \t\r\n{}()"#\/=]+/,

    parameters: ($) => seq("(", repeat(choice($._head, "=", $._newline)), ")"),

    foreign_body: ($) =>
      seq(
        "{",
        repeat(
          choice(
            $._code,
            alias($._foreign_string, $.string),
            alias($._foreign_long_string, $.long_string),
            $.foreign_body,
            '"',
            "/",
          ),
        ),
        "}",
      ),
    _code: () => /[^{}"#\/]+/,

    // One token: an unclosed quote is an ordinary character here.
    _foreign_string: () => /"([^"\\\n]|\\[^\n])*"/,
    _foreign_long_string: () => /"""("{0,2}([^"\\]|\\[\s\S]))*"""/,
  },
});

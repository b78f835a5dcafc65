"""Reference page of value types: their syntax, with the units from the compiler's tables."""

from __future__ import annotations

from datetime import timedelta

from dslc.blocks.values import pattern, url
from dslc.blocks.values.event import LONGEST
from dslc.blocks.values.names import NAME_RULE
from dslc.blocks.values.quantity import LARGEST_SIZE, SIZE_UNITS, TIME_UNITS, unit_bytes, unit_ms, write_duration
from dslc.reference.markdown import code, listing, page, program, table
from dslc.reference.titles import family_page
from dslc.vocabulary import Vocabulary

_STRINGS = r'''
## Strings

`"…"` on one line. The escapes are `\"`, `\\`, `\n`, `\r`, `\t` and `\uXXXX`; any other is an error.

A text of several lines is written between two `"""`. The common indentation of its lines is removed, and so are the
first and the last line if they are empty. In the value, lines end with LF, even if the file uses CRLF.
'''

_LONG_STRING = '''
agent my-agent {
    instruction """
        Remember who asked,
        and what they asked for.
        """
}
'''

_WORDS = f"""
## Words and names

One of the choices of a setting, or the name of a block. A bare word begins with a letter or `_`, followed by
letters, digits, `_` and `-`; in quotes it is the same word. A name has {NAME_RULE}, is not `.` or
`..`, and needs quotes unless it is a bare word.
"""

_NUMBERS = """
## Numbers

`10`, `-1`, `10_000`; settings of the type number also accept fractions, such as `0.7`. Exponents are not allowed. A
number has at most 64 bits.

## Booleans

`true` and `false`, without quotes.
"""

_LISTS = """
## Lists

`[a, b]` or `[a b]`, on one or more lines. If a setting accepts one value or a list, a single value needs no brackets.
"""

_MAPS = """
## Maps

Names and values in braces: `headers { X-Team "core" }`. The names are free, and each is given once. A name that is not
a word is quoted: `"X.Team" "core"`. `X-Team` and `"X-Team"` are the same name.
"""

_JSON_PATH = """
## JSONPath

A query of [RFC 9535](https://www.rfc-editor.org/rfc/rfc9535) in quotes: `"$.action"`, `"$.items[0].name"`,
`"$.labels[*].name"`.
"""

_HEADERS = """
## Headers

The name of an HTTP header in quotes, in upper or lower case: `"X-GitHub-Event"`.
"""

_PATTERNS = f"""
## Patterns

A regular expression in quotes, in the syntax of [RE2](https://github.com/google/re2/wiki/Syntax), of at most
{pattern.LONGEST} characters: `"^release-"`, `"(?i)urgent"`. It matches anywhere in a text, unless it uses `^` and `$`.
Matching always takes linear time; therefore look-around and back references are not supported. Write a backslash twice:
`"^v\\\\d+$"`.
"""

_EVENTS = f"""
## Events

The type of an event, as the sender writes it, in quotes: {code("invoice.paid")}. It is printable text of at most
{LONGEST} characters.
"""

_TEMPLATES = """
## Templates

The data that a signature covers, in quotes: text with parts of the request in braces, `"{timestamp}.{body}"`. `{body}`
or a value of it, `{json:$.data.id}`, is required, and each part may occur once. `{id}` needs a separator on the side of
`{body}`. A request whose id contains that character is refused: the text could be split in another place, and the
signature would be valid for another delivery.
"""

_TOOLS = """
## Tools

The name of a [tool](tools.md), or a pattern in quotes, in which `*` matches any number of characters: `memory_search`,
`"memory_*"`. A name with a dot is a tool of another server.
"""

_NETWORKS = """
## Networks

An IPv4 or IPv6 address in quotes, or a network of them in CIDR notation: `"203.0.113.7"`, `"192.0.2.0/24"`,
`"2001:db8::/32"`. The address of a network has no bits set beyond the prefix.
"""


def values(vocabulary: Vocabulary) -> str:
    """Return the text of the page."""
    return page(
        "Values",
        "A value is on the line of its key. One comma may follow it.",
        _STRINGS,
        program(_LONG_STRING),
        _WORDS,
        _NUMBERS,
        _durations(),
        _sizes(),
        _LISTS,
        _MAPS,
        _urls(),
        _JSON_PATH,
        _HEADERS,
        _PATTERNS,
        _EVENTS,
        _TEMPLATES,
        _TOOLS,
        _NETWORKS,
        _secrets(vocabulary),
    )


def _durations() -> str:
    rows = [
        (", ".join(map(code, spellings)), code(write_duration(timedelta(milliseconds=unit_ms(spellings[0])))))
        for spellings in TIME_UNITS
    ]
    return f"""
## Durations

Whole numbers, each with a unit: `90d`, `1h30m`, `250ms`; in quotes with blanks, `"1h 30m"`, `"90 days"`. Units
are in descending order and not repeated; every number has a unit; units are case-sensitive. A month is 30.44 days and a
year 365.25 days, as in Rust's humantime.

{table(("unit", "length"), rows)}

The shortest unit is the millisecond. The longest duration is {code(write_duration(timedelta.max))}.
"""


def _sizes() -> str:
    rows = [(code(unit), f"{unit_bytes(unit):,}") for unit in SIZE_UNITS]
    return f"""
## Sizes

One number with one unit: `256KB`, `1.5MB`, `5GiB`. It must be a whole number of bytes; units are case-sensitive.

{table(("unit", "bytes"), rows)}

The largest is {code(f"{LARGEST_SIZE}B")}.
"""


def _urls() -> str:
    return f"""
## URL paths

A path in quotes that begins with `/`, in one canonical spelling: no query or fragment, no empty segment, no `.` or
`..`, and no escape of a letter, a digit or a `/`. These paths, and all paths below them, are reserved for the daemon:
{listing(url.RESERVED, "and")}.

## URLs

An absolute `http` or `https` URL in quotes, without user name, password or fragment: `"https://example.org/hooks"`.
"""


def _secrets(vocabulary: Vocabulary) -> str:
    names = list(vocabulary.rows("secret"))
    backends = f"The [backends]({family_page('secret')}) are {listing(names, 'and')}." if names else ""
    return f"""
## Secrets

A reference in quotes, `"secret://BACKEND/PATH"`, to a secret that is stored elsewhere.
{backends}
`"vault://PATH"` is short for `"secret://vault/PATH"`, and `"file://PATH"` for `"secret://file/PATH"`. Any other text is
the secret itself, and causes the warning [P501](diagnostics.md#p501).
"""

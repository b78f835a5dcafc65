"""The page of values: how each type is written, with the units of the tables that the compiler reads them by."""

from __future__ import annotations

from datetime import timedelta

from dslc.blocks.values import pattern, size, url
from dslc.blocks.values.duration import LENGTHS, write_duration
from dslc.blocks.values.event import LONGEST
from dslc.blocks.values.names import NAME_RULE
from dslc.reference.markdown import code, listing, page, program, table
from dslc.reference.titles import family_page
from dslc.vocabulary import Vocabulary

_STRINGS = r'''
## Strings

`"…"` on one line. Escapes are `\"`, `\\`, `\n`, `\r`, `\t` and `\uXXXX`; any other is an error.

A text over several lines stands between two `"""`. The indentation that its lines share is removed, and so are the
first and the last line when they are empty; inside, lines end in LF, whatever the file has.
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

One of the choices of a setting, or the name of a block. A bare word begins with a letter or `_` and goes on with
letters, digits, `_` and `-`; in quotes it is the same word. A name has {NAME_RULE}, is not `.` or
`..`, and needs quotes unless it is a bare word.
"""

_NUMBERS = """
## Numbers

`10`, `-1`, `10_000`; where a number need not be whole, `0.7` too. There is no exponent. A number is at most 64 bits
wide.

## Truths

`true` and `false`, without quotes.
"""

_LISTS = """
## Lists

`[a, b]` or `[a b]`, over several lines too. Where a setting takes one value or a list, a single value needs no
brackets.
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

A regular expression in quotes, as [RE2](https://github.com/google/re2/wiki/Syntax) writes them, of at most
{pattern.LONGEST} characters: `"^release-"`, `"(?i)urgent"`. It is found anywhere in a text, unless `^` and `$` say
where. It takes time in proportion to the text, whatever the text is; in return there is no look-around and there are no
back references. A backslash is written twice: `"^v\\\\d+$"`.
"""

_EVENTS = f"""
## Events

The type of an event as its sender calls it, in quotes: {code("invoice.paid")}. It is printable text of at most
{LONGEST} characters.
"""

_TEMPLATES = """
## Templates

What a signature covers, in quotes: text with parts of the request in braces, `"{timestamp}.{body}"`. `{body}` must be
there, and no part twice. On its side towards `{body}`, `{id}` needs a separator: a request whose id holds that
character is refused, for with another border between id and body the same signature would fit another delivery.
"""

_TOOLS = """
## Tools

The name of a [tool](tools.md), or a pattern in quotes in which `*` is any number of characters: `memory_search`,
`"memory_*"`. A name with a dot in it is a tool of another server.
"""

_NETWORKS = """
## Networks

An IPv4 or IPv6 address in quotes, or a network of them in CIDR notation: `"203.0.113.7"`, `"192.0.2.0/24"`,
`"2001:db8::/32"`. A network's address has no bits beyond its length.
"""


def values(vocabulary: Vocabulary) -> str:
    """The page."""
    return page(
        "Values",
        "A value stands on the line of its key. One comma may follow it.",
        _STRINGS,
        program(_LONG_STRING),
        _WORDS,
        _NUMBERS,
        _durations(),
        _sizes(),
        _LISTS,
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
        (", ".join(map(code, spellings)), code(write_duration(timedelta(milliseconds=length))))
        for length, spellings in LENGTHS
    ]
    return f"""
## Durations

Whole numbers, each with a unit: `90d`, `1h30m`, `250ms`; in quotes with blanks, `"1h 30m"`, `"90 days"`. Units
descend and are not repeated, a unit is never left out, and case matters. Months and years are as in Rust's humantime,
30.44 and 365.25 days.

{table(("unit", "is"), rows)}

There is no unit shorter than a millisecond, and no duration longer than {code(write_duration(timedelta.max))}.
"""


def _sizes() -> str:
    rows = [(code(unit), f"{length:,}") for unit, length in size.UNITS.items()]
    return f"""
## Sizes

One number with one unit: `256KB`, `1.5MB`, `5GiB`. It must come to whole bytes, and case matters.

{table(("unit", "bytes"), rows)}

The largest is {code(f"{size.LARGEST}B")}.
"""


def _urls() -> str:
    return f"""
## URL paths

A path in quotes that begins with `/`, in one canonical spelling: no query or fragment, no empty segment, no `.` or
`..`, and no escape that hides a letter, a digit or a `/`. Reserved for the daemon, with everything below each:
{listing(url.RESERVED, "and")}.

## URLs

An absolute `http` or `https` URL in quotes, without user name, password or fragment: `"https://example.org/hooks"`.
"""


def _secrets(vocabulary: Vocabulary) -> str:
    names = list(vocabulary.rows("secret"))
    backends = f"The [backends]({family_page('secret')}) are {listing(names, 'and')}." if names else ""
    return f"""
## Secrets

A reference in quotes, `"secret://BACKEND/PATH"`, to a secret that is kept elsewhere.
{backends}
`"vault://PATH"` is short for `"secret://vault/PATH"`, and `"file://PATH"` for `"secret://file/PATH"`. Any other text is
taken for the secret itself, with the warning [P501](diagnostics.md#p501).
"""

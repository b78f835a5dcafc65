"""Recognises values that are not secrets: references, variables, placeholders, descriptions, code.

Each function is true only for short values: nothing longer than a few hundred bytes is a placeholder.
"""

from __future__ import annotations

import re

_LONGEST = 300  # bytes

_WORDS = frozenset(
    b"""
    required optional mandatory needed string str text bytes int integer number bool boolean object any char varchar
    varbinary blob uuid yes no ok valid invalid correct incorrect wrong missing absent empty blank changed unchanged
    reset rotated revoked expired refreshed renewed deleted removed created stored saved set unset enabled disabled
    encrypted hashed unknown read write inherit await new self this cls lambda function func async return yield not if
    else var let const def type field value is was are the a an and or to of in on see use via from for with same
    different forgotten lost leaked input prompt ask visible too must should may can never always only none null nil
    true false undefined changeme replaceme placeholder example dummy fake todo tbd redacted omitted hidden masked
    """.split()
)
_STAND_IN = re.compile(
    rb"""secret://.*|//.*|\$\{.*|\$\(.*|\$[A-Z_][A-Z0-9_.]*|\#\{.*|%[A-Z_]+%|%\(?[a-z_]*\)?s|@@?[a-z_]+@?@?|<[^>]*>?
    |[*]+|[x]{3,}|\{+[a-z_][^{}]*|[\[\](){}<>*.,;:|\\/+=_?!#@ -]+|(?:[a-z _:/.-]*\{+[^{}]*\}+)+[a-z _:/.-]*
    |:[a-z_]+|[0-9]{1,2}
    |.{0,12}(?:[*]{3,}|[.]{3}|\xe2\x80\xa6)\W*|os\.environ.*|process\.env.*|import\.meta\.env.*|secrets\..*|vars\..*
    |(?:your|insert|enter|put|add)[ _-].*|.*[ _-]here|change[ _-]?(?:me|it|this).*|replace[ _-].*|place[ _-]holder
    |(?:my|the|some|a)[ _-](?:own[ _-])?(?:api[ _-]?)?(?:key|token|secret|password)|n/a|\(?(?:empty|unset|not\ set)\)?
    |[a-z_]*(?:key|token|secret|pass(?:word)?|auth|credential)s?_(?:id|name|file|path|env|var)|sha256:.*
    |[a-z][a-z0-9+.-]*://[^@\s]*""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_VARIABLE = re.compile(rb"[A-Z][A-Z0-9_]*")
_OF_A_SECRET = re.compile(rb"KEY|TOKEN|SECRET|PASS|PWD")
_CODE = re.compile(
    rb"[A-Za-z_$][\w$]*(?:(?:\.|->|::)[A-Za-z_$][\w$]*)*[(\[{].*"  # a call, an index, a literal
    rb"|!?[A-Za-z_$]+(?:(?:\.|\?\.|->|::)[A-Za-z_$]+\d?)+[!?]?"  # a.b.c without digits: an attribute
    rb"|&?\*?[a-z]+[_a-z]*\.(?:encode|decode|strip|lower|upper|hex|value|text|data|trim)\b.*"
    rb"|lambda\b.*|[|&=!<>].*",
    re.DOTALL,
)
_SENTENCE = re.compile(
    rb"[A-Z].*|.*[.!?:]"
    rb"|.*\b(?:your|the|a|an|is|are|must|for|to|of|at|this|please|enter|should|not|and|or|with|than)\b.*",
    re.DOTALL,
)
_QUANTITY = re.compile(
    rb"[0-9]+(?:-[0-9]+)?[ -]?(?:bits?|bytes?|char(?:acter)?s?|days?|hours?|min(?:ute)?s?|seconds?|times|[dhmsxk%])?"
    rb"|v?[0-9]+(?:\.[0-9]+)+|[0-9]{4}-[0-9]{2}-[0-9]{2}.*",
    re.IGNORECASE,
)
_REFERENCE = re.compile(
    rb"#[0-9]+|@[A-Za-z][\w-]*|v?[0-9]+(?:\.[0-9]+)+|[A-Za-z_][\w.-]*=.*"
    rb"|[0-9]{1,5}-?(?:bits?|bytes?|char(?:acter)?s?|days?|hours?|min(?:ute)?s?|[dhmsxk]|rd|th|st)",
    re.DOTALL,
)
_PATH = re.compile(
    rb"(?:(?:~|\.{1,2}|[A-Za-z]:)?[/\\][\w.@-]+|[A-Za-z_][\w.@-]+)(?:[/\\][\w.@*-]+)+[/\\]?"
    rb"|\.?[\w-]+\.(?:pem|key|crt|json|ya?ml|toml|txt|md|env|py|js|ts|go|rs)"
)
_MIXED = tuple(re.compile(kind) for kind in (rb"[0-9]", rb"[A-Z]", rb"[a-z]"))
_WORD = re.compile(rb"[A-Za-z]+(?:[_.: -][A-Za-z]+)*|__\w+__|_[a-z_]+.*")


def is_placeholder(value: bytes) -> bool:
    """True if the value names or describes a secret."""
    if len(value) > _LONGEST:
        return False
    if value.lower() in _WORDS or not value.strip(b"xX") or (_VARIABLE.fullmatch(value) and _OF_A_SECRET.search(value)):
        return True
    return not value.isalpha() and (_STAND_IN.fullmatch(value) is not None or is_path(value))


def is_path(value: bytes) -> bool:
    """True for a path or a file name. One that mixes upper case, lower case and digits may be base64 instead."""
    if len(value) > _LONGEST or all(kind.search(value) for kind in _MIXED):
        return False
    return _PATH.fullmatch(value) is not None


def is_code(value: bytes) -> bool:
    """True for code that gets a secret: `settings.api_key`, `get_token()`, `keys[0]`."""
    return len(value) <= _LONGEST and _CODE.fullmatch(value) is not None


def is_sentence(value: bytes) -> bool:
    """True for three words or more that read like prose; a passphrase has no capital, full stop or article."""
    return len(value) <= _LONGEST and value.count(b" ") >= 2 and _SENTENCE.fullmatch(value) is not None


def is_quantity(value: bytes) -> bool:
    """True for a number with its unit, a version, a date."""
    return len(value) <= _LONGEST and _QUANTITY.fullmatch(value) is not None


def is_reference(value: bytes) -> bool:
    """True for an issue, a person, a short amount, a version, another setting."""
    return len(value) <= _LONGEST and _REFERENCE.fullmatch(value) is not None


def is_word(value: bytes) -> bool:
    """True for words without a digit, as constants of a program are."""
    return len(value) <= _LONGEST and _WORD.fullmatch(value) is not None

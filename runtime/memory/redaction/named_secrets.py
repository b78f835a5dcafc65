"""Secrets recognised by their name: the second design's `*_KEY`, `*_TOKEN`, `*_SECRET`, `*_PASSWORD`, `password=`,
`api_key=`, `token=`, and the same in JSON, YAML, code, headers, flags and XML.

A name is not enough: prose contains "password: required", code `token = request.token`, an example `<your key>`. A
value after `=` or in quotes is a secret unless it is plainly one of those; after a colon it must also look random. To
have a secret redacted for certain, write it with `=`.
"""

from __future__ import annotations

import re

from runtime.memory.redaction.pattern import REDACTED, FoundSecret, Pattern
from runtime.memory.redaction.placeholders import (
    is_code,
    is_placeholder,
    is_quantity,
    is_reference,
    is_sentence,
    is_word,
)

_RANDOM = re.compile(rb"[0-9!$%^*_+=#@/\\]")
_MIXED = tuple(re.compile(kind) for kind in (rb"[0-9]", rb"[A-Z]", rb"[a-z]"))
_GOES_ON = re.compile(rb"[@\\#|]")
_ENDS = re.compile(rb"[\"'`,;)}\]\s]*(?:#.*)?")
_NAME = re.compile(rb"[\w.-]+")
_UPPER_CASE = re.compile(rb"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_PASSWORD = re.compile(rb"[a-z0-9_.-]*pass(?:word|wd|phrase)")
_LOWER = re.compile(rb"[a-z][a-z0-9_-]*")
_PLAIN = re.compile(rb"[\w.-]+")
_CONSTANT = re.compile(rb"(?:[A-Z0-9]*_)+(?:KEY|TOKEN|PAT)")
_GUARDED = re.compile(rb"SECRET|API|AUTH_|ACCESS|PRIVATE|ENCRYPTION|SIGNING|PASS")
_NO_SECRET = re.compile(
    rb"(?:public|publishable|pub|primary|foreign|sort|partition|cache|idempotency|hot|object|row|index|unique|dedup"
    rb"|routing|translation|site|surrogate|natural|composite|shard|group|registry|host)[_.-]?key"
    rb"|(?:next|page|continuation|cursor|max|min|eos|bos|pad|unk|mask|stop|num|total|prompt|completion|input|output"
    rb"|sync|cancellation|invalidation|start|end|first|last|special|per|cls|sep|design|class|symbol|lexer|parser|public)"
    rb"[_.-]?token|(?:1|one)password$",
    re.IGNORECASE,
)
"""Names that end like a secret's name but are not secrets."""


def _echo(kind: bytes, camel: bytes) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    variable = rb"&?\*?(?:[A-Za-z]+_)*(?i:" + kind + rb")s?(?:_[a-z]+)?|[a-z]+(?:[A-Z][a-z]+)*(?:" + camel + rb")s?"
    return re.compile(rb"(?:" + kind + rb")s?$", re.IGNORECASE), re.compile(variable)


_ECHOES = (
    _echo(rb"pass(?:word|wd|phrase)?|pwd", rb"Pass(?:word|wd|phrase)?|Pwd"),
    _echo(rb"token", rb"Token"),
    _echo(rb"key", rb"Key"),
    _echo(rb"secret", rb"Secret"),
)


def _is_echo(name: bytes, value: bytes) -> bool:
    """True for a variable of the same kind, as in `password=user_password` or `token: accessToken`."""
    own = next((variable for kind, variable in _ECHOES if kind.search(name)), None)
    return own is not None and len(value) < 100 and own.fullmatch(value) is not None


def _is_constant(name: bytes, sign: bytes, value: bytes) -> bool:
    """True for a constant word that code calls a key or a token, as in `ITERABLE_KEY = "items"`."""
    upper = _CONSTANT.fullmatch(name) is not None and _GUARDED.search(name) is None
    return upper and b" = " in sign and is_word(value)


def _is_setting(found: FoundSecret) -> bool:
    value = found.value
    done = REDACTED.match(found.data, found.begin)
    if done is not None:  # followed by more text, it was only part of the value
        return done.end() < found.end and _GOES_ON.match(value, done.end() - found.begin) is None
    start = _NAME.match(found.before_value)
    assert start is not None
    name, sign = start[0], found.before_value[start.end() :]
    if is_placeholder(value) or _NO_SECRET.search(name):
        return False
    assigned = b"=" in sign or b"%3" in sign
    if sign.endswith((b'"', b"'", b"`")):
        certain = assigned or not sign.endswith(b"`")
        return not is_sentence(value) and not _is_constant(name, sign, value) and (certain or _looks_random(found))
    if _is_echo(name, value.partition(b")")[0]) or is_code(value):
        return False
    return assigned or _looks_random(found) or _is_yaml_setting(found, name)


def _is_mixed_setting(found: FoundSecret) -> bool:
    """True if the value of an ambiguous name, such as `stripe_key=…`, looks like a secret."""
    value = found.value
    return len(value) >= 20 and all(kind.search(value) for kind in _MIXED) and _is_setting(found)


def _looks_random(found: FoundSecret) -> bool:
    """True if a value after a colon is not prose, a number, a date, a person or an issue."""
    value, ends = found.value, _ENDS.fullmatch(found.after) is not None
    if _RANDOM.search(value) is None or is_reference(value) or (is_quantity(value) and not ends):
        return False
    return len(value) >= 6 or ends


def _is_yaml_setting(found: FoundSecret, name: bytes) -> bool:
    """True for `DB_PASSWORD: opensesame`, or `password: opensesame` on a line of its own, as in YAML."""
    yaml = not found.before.strip(b" ") and (
        _PASSWORD.fullmatch(name) is not None or (b"_" in name and _LOWER.fullmatch(found.value) is not None)
    )
    if not (yaml or _UPPER_CASE.fullmatch(name)) or _ENDS.fullmatch(found.after) is None:
        return False
    return len(found.value) >= 6 and _PLAIN.fullmatch(found.value) is not None and not is_reference(found.value)


# Quoted (up to the end of the quote or line), in JSON inside a JSON string, or bare. Punctuation that closes a sentence
# or a bracket after a bare value is not part of it, and of these only `&` cannot be part of a URL. Between a name and a
# quoted value code may have a type.
_ASSIGNED, _ANY_SIGN = rb"(?:=>|:=|=|%3[Dd])", rb"(?:=>|:=|[=:]|%3[Dd])"
_QUOTED = (
    rb"""[ \t]*:[ \t]*&?[A-Za-z_][\w.\[\]|<>]{0,30}[ \t]*=[ \t]*[bfru]?["']([^"'\\\n]+)["']"""
    rb"""|[ \t]*""" + _ANY_SIGN + rb"""(?:\*\*)?[ \t]*(?:[bfruBFRU]{0,2}"((?:[^"\\\n]|\\[^\n])+)"""
    rb"""|[bfruBFRU]{0,2}'((?:[^'\\\n]|\\[^\n])+)|`([^`\n]+)|\\"([^"\\\n]+))"""
)


def _bare_regex(sign: bytes, without: bytes) -> bytes:
    inner = rb"[^\s\"'`;" + without + rb"]"
    return (
        rb"[ \t]*" + sign + rb"(?:\*\*)?[ \t]*"
        rb"([^\s\"'`=;" + without + rb"](?:" + inner + rb"*[^\s\"'`.,;:)}>&\]])?)"
    )


_SUFFIX = (
    rb"(?:_?[0-9]{1,2}|_(?:PROD(?:UCTION)?|STAG(?:E|ING)|DEV(?:ELOPMENT)?|TEST(?:ING)?|LIVE|LOCAL|CI|QA|UAT|SANDBOX"
    rb"|OLD|NEW|BASE|PRIMARY|SECONDARY|MAIN|BACKUP))?"
)
"""Suffixes of several secrets of a kind: `API_KEY_2`, `DB_PASSWORD_PROD`. Not of facts about one (`_URL`, `_TTL`)."""


def _setting_regex(upper: bytes, lower: bytes) -> bytes:
    """Return the regex of a setting whose name ends in `_UPPER`, as environment variables do, or is one of `lower`, in
    any case."""
    closed = rb"(?:\\?[\"'`]\]?|\*\*)?"
    of_upper = _SUFFIX + closed + rb"(?:" + _QUOTED + rb"|" + _bare_regex(_ANY_SIGN, b"") + rb")"
    of_lower = (
        rb"(?i:"
        + _SUFFIX
        + rb")"
        + closed
        + rb"(?:"
        + _QUOTED
        + rb"|"
        + _bare_regex(_ASSIGNED, b"&")
        + rb"|"
        + _bare_regex(b":", b"")
        + rb")"
    )
    return rb"\b[A-Za-z0-9_]*_(?:" + upper + rb")" + of_upper + rb"|\b(?i:" + lower + rb")" + of_lower


_ANY_PREFIX = rb"[a-z0-9_.-]*"
_OWN_PREFIX = rb"(?:[a-z0-9_.-]*[_.-])?"
_CAMEL = rb"(?-i:[a-z][A-Za-z0-9]*)"
_KEY_KIND = rb"(?:api|secret|access|private|encryption|signing|master|auth|account|storage|service|admin|session|hmac)"
_ACCOUNT = (
    rb"(?:db|database|smtp|mail|email|user|root|admin|mysql|postgres|pg|redis|ftp|ldap|proxy|auth|login|sudo|app)"
)
_TAG = rb"(?i:password|passwd|passphrase|secret|api[_-]?key|(?:access|auth)[_-]?token|client[_-]?secret)"


def _flag_regex(names: bytes) -> bytes:
    return rb"--(?:[a-z-]+-)?(?:" + names + rb")[ \t]+[\"']?([^\s\"'`$<>{}\[\]|;&-][^\s\"'`;&|]*)"


def _is_flag(found: FoundSecret) -> bool:
    return not is_placeholder(found.value) and _RANDOM.search(found.value) is not None


def _sentence_regex(name: bytes) -> bytes:
    """Return the regex of `the password is "hunter2"`."""
    return rb"\b(?i:" + name + rb")[ \t]+(?i:is|was|to|as|=)[ \t]+(?:now[ \t]+)?[\"'`]([^\s\"'`]{6,})[\"'`]"


def _is_in_sentence(found: FoundSecret) -> bool:
    return not is_placeholder(found.value) and not is_code(found.value) and _looks_random(found)


def _is_phrase(found: FoundSecret) -> bool:
    return not is_placeholder(found.value) and not is_sentence(found.value)


def _is_content(found: FoundSecret) -> bool:
    return not is_placeholder(found.value)


SETTINGS: tuple[Pattern, ...] = (
    Pattern(
        # A phrase of several words, on a line of its own.
        "password",
        rb"(?m)^[ \t]*(?:export[ \t]+)?(?i:[a-z0-9_.-]*(?:password|passwd|passphrase))[ \t]*[:=][ \t]*"
        rb"([a-z]{3,}(?:[ -][a-z]{3,}){2,9})[ \t]*$",
        _is_phrase,
    ),
    Pattern(
        "key",
        _setting_regex(
            rb"KEY",
            _OWN_PREFIX
            + _KEY_KIND
            + rb"[_-]?(?:access[_-]?)?key|"
            + _CAMEL
            + rb"(?-i:(?:Api|API|Secret|Access|Private|Encryption|Signing)Key)",
        ),
        _is_setting,
    ),
    Pattern(
        "token",
        _setting_regex(
            rb"TOKEN|PAT",
            _OWN_PREFIX + rb"token|(?:access|auth|api|refresh|session|id|bot|bearer)token|" + _CAMEL + rb"(?-i:Token)",
        ),
        _is_setting,
    ),
    Pattern(
        "secret",
        _setting_regex(
            rb"SECRET|CREDENTIAL|CREDENTIALS",
            _OWN_PREFIX + rb"secret|(?:client|shared|signing|webhook|app|consumer)secret|" + _CAMEL + rb"(?-i:Secret)",
        ),
        _is_setting,
    ),
    Pattern(
        "password",
        _setting_regex(
            rb"PASSWORD|PASSWD|PASS|PASSPHRASE|PWD",
            _ANY_PREFIX
            + rb"(?:password|passwd|passphrase)|"
            + _OWN_PREFIX
            + rb"(?:pwd|passwort|sshpass|"
            + _ACCOUNT
            + rb"[_-]?pass)",
        ),
        _is_setting,
    ),
    Pattern("key", _setting_regex(rb"KEY", rb"[a-z][a-z0-9_-]*[_-]key"), _is_mixed_setting),
    Pattern("password", _sentence_regex(rb"pass(?:word|phrase|wd)"), _is_in_sentence),
    Pattern("token", _sentence_regex(rb"token"), _is_in_sentence),
    Pattern("key", _sentence_regex(rb"(?:api|access|secret|private|encryption)[ -]key"), _is_in_sentence),
    Pattern("secret", _sentence_regex(rb"secret"), _is_in_sentence),
    Pattern("key", _flag_regex(rb"(?:api|access|secret|auth)-?key"), _is_flag),
    Pattern("token", _flag_regex(rb"token"), _is_flag),
    Pattern("secret", _flag_regex(rb"secret"), _is_flag),
    Pattern("password", _flag_regex(rb"password|passwd|passphrase"), _is_flag),
    Pattern("password", rb"\bmysql(?:dump|admin)?\b[^\n|;]*?[ \t]-p([^\s'\"-][^\s'\"]*)", _is_flag),
    Pattern("password", rb"\bsshpass[ \t]+-p[ \t]*[\"']?([^\s'\"]+)", _is_flag),
    Pattern("password", rb"\bredis-cli\b[^\n|;]*?[ \t]-a[ \t]+[\"']?([^\s'\"]+)", _is_flag),
    Pattern("password", rb"\bdocker[ \t]+login\b[^\n|;]*?[ \t]-p[ \t]+[\"']?([^\s'\"]+)", _is_flag),
    Pattern("secret", rb"<(?:[A-Za-z]+:)?" + _TAG + rb"(?:[ \t][^<>\n]*)?>[ \t]*([^<>\s][^<>\n]*)</", _is_content),
    Pattern("password", rb"(?i:\bmachine[ \t]+\S+[ \t\n]+login[ \t]+\S+[ \t\n]+password[ \t]+)(\S+)", _is_content),
)
"""In the order in which they are tried."""

"""Texts on which two grammars are compared: programs in any layout, and damaged ones.

A program is a list of tokens and of the white space and comments between them; joined they are its text. Everything is
determined by the seed.
"""

from __future__ import annotations

from random import Random

_WORDS = (
    "a", "block", "model", "b-c", "_x1", "store", "type", "agent", "policy", "metadata", "Z_", "memory", "x9-",
    "true",
)  # fmt: skip
_KINDS = ("memory", "webhook", "agent", "model", "agents", "policy-x", "x", "_")
_FOREIGN = ("metadata", "policy", "schedule", "channel", "function", "type")
_NUMBERS = ("0", "-1", "0.7", "90d", "1h30m", "10_000", "25MB", "1.2.3", "007x_.")
_INSIDE = (
    "a", " ", "é", "😀", "{", "}", "#", "//", "'", ",", "[", "]", "=", "\\n", '\\"', "\\\\", "\\u00e9", "\\q", "\t",
)  # fmt: skip
_LONG_INSIDE = (*_INSIDE, "\n", '"', '""', "\\\n", ' "" ', "  # not a comment\n")
_COMMENTS = ("#", "# a", "// b", '#"', "#{", '//"""', "#}é😀", "# // #", "//{[(")
_CODE = (
    "a", "=", ":", "'", '"', "/", "(", ")", "[", "é😀", "->", "\n", " ", ";", "1.5", "!", "\\", "\\\n", ",", "\u00a0",
)  # fmt: skip
_HEAD = (
    "a", "b-c", "T", ":", "->", ".", "[", "]", "<", ">", ",", "1.5", "é", "'", "/", '"s"', '"{"', "|", "\\", "agent",
)  # fmt: skip
_SPLINTERS = (
    *("{", "}", "[", "]", "(", ")", ",", '"', '""', '"""', '""""', "#", "//", "/", "\\", "\n", "\r\n", " ", "\t", "="),
    *(
        ":",
        "'",
        "-",
        "--",
        "1",
        "a",
        "é",
        "😀",
        ".",
        '"x"',
        '"""x"""',
        "90d",
        "policy",
        "type",
        "agent",
        "agent x(",
        "{}",
    ),
    *("type A = B", "function f(a,\nb) -> C {", "\\\n", '"\\"', "\u00a0", "\f", "\ufeff", "a b", "a {", "memory x {"),
)


class Writer:
    """A generator of one program."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.newline = random.choice(("\n", "\n", "\r\n"))
        self.tokens: list[str] = []

    def write(self) -> list[str]:
        """Return the tokens of a valid program."""
        self._lines()
        for at in range(count := self.random.randint(0, 3)):
            if self.random.random() < 0.4:
                self._foreign(last=at == count - 1)
            else:
                self._block()
            self._lines()
        return self.tokens

    def _put(self, *tokens: str) -> None:
        self.tokens += tokens

    def _one(self, *options: str) -> str:
        return self.random.choice(options)

    def _maybe(self, chance: float) -> bool:
        return self.random.random() < chance

    def _blank(self) -> None:
        """Return white space within a line; possibly none, if the adjacent tokens allow it."""
        wordy = bool(self.tokens) and (self.tokens[-1][-1:].isalnum() or self.tokens[-1][-1:] in "_-.")
        self._put(self._one(" ", "  ", "\t") if wordy else self._one("", "", " ", "\t "))

    def _lines(self) -> None:
        """Return any white space: blanks, line ends, comments."""
        self._blank()
        for _ in range(self.random.choice((0, 0, 1, 1, 2, 3))):
            if self._maybe(0.3):
                self._put(self._one(*_COMMENTS))
            self._put(self.newline, self._one("", "", "    ", "\t"))

    def _string(self) -> str:
        return '"' + "".join(self.random.choices(_INSIDE, k=self.random.choice((0, 1, 2, 5)))) + '"'

    def _long_string(self) -> str:
        inside = "".join(self.random.choices(_LONG_INSIDE, k=self.random.choice((0, 1, 3, 6))))
        while '"""' in inside or inside.endswith('"'):
            inside = inside.replace('"""', '""').removesuffix('"')
        return f'"""{inside}"""'

    def _name(self) -> str:
        return self._string() if self._maybe(0.4) else self._one(*_WORDS)

    def _block(self) -> None:
        self._put(self._one(*_KINDS))
        if self._maybe(0.8):
            self._blank()
            self._put(self._name())
        self._body(0)

    def _body(self, depth: int) -> None:
        self._blank()
        self._put("{")
        self._lines()
        for _ in range(self.random.choice((0, 1, 1, 2, 3))):
            self._entry(depth)
            self._lines()
        self._put("}")

    def _entry(self, depth: int) -> None:
        self._put(self._string() if self._maybe(0.1) else self._one(*_WORDS))
        shape = self.random.random() if depth < 3 else 0.0
        if shape < 0.85:
            self._blank()
            self._value(0)
        if shape >= 0.7:
            self._body(depth + 1)
        elif self._maybe(0.2):
            self._blank()
            self._put(",")

    def _value(self, depth: int) -> None:
        kind = self.random.randint(0, 4 if depth < 2 else 3)
        if kind == 4:
            self._list(depth)
        else:
            self._put((self._one(*_WORDS), self._string(), self._long_string(), self._one(*_NUMBERS))[kind])

    def _list(self, depth: int) -> None:
        self._put("[")
        self._lines()
        for _ in range(self.random.choice((0, 1, 2, 3))):
            self._value(depth + 1)
            if self._maybe(0.5):
                self._lines()
                self._put(",")
            self._lines()
        self._put("]")

    def _foreign(self, *, last: bool) -> None:
        kind = self._one(*_FOREIGN, "agent")
        self._put(kind)
        if kind == "agent":
            self._blank()
            self._put(self._name())
            self._blank()
            self._parentheses(0)
        self._head(self.random.choice((0, 1, 2, 4)))
        if kind == "type" and self._maybe(0.6):
            self._put("=")
            self._head(self.random.choice((0, 1, 2)))
            if self._maybe(0.7):
                self._put("" if last and self._maybe(0.3) else self.newline)
                return
        self._foreign_body(0)

    def _head(self, count: int) -> None:
        for _ in range(count):
            self._blank()
            if self._maybe(0.15):
                self._parentheses(0)
            else:
                self._put(self._one(*_HEAD))
        self._blank()

    def _parentheses(self, depth: int) -> None:
        self._put("(")
        self._lines()
        for _ in range(self.random.choice((0, 1, 2))):
            if depth < 2 and self._maybe(0.2):
                self._parentheses(depth + 1)
            else:
                self._put(self._one(*_HEAD))
            self._lines()
        self._put(")")

    def _foreign_body(self, depth: int) -> None:
        self._put("{")
        for _ in range(self.random.choice((0, 1, 2, 4))):
            kind = self.random.randint(0, 6)
            if kind == 0 and depth < 3:
                self._foreign_body(depth + 1)
            elif kind <= 2:
                self._put((self._string(), self._long_string(), self._one(*_COMMENTS) + self.newline)[kind])
            else:
                self._put(self._one(*_CODE))
        self._put("}")


def program(seed: int) -> list[str]:
    """Return the tokens of a program. Nearly all are valid: a lone quote may swallow a brace."""
    return Writer(Random(seed)).write()


def damaged(tokens: list[str], random: Random) -> str:
    """Return a text with one to three small errors."""
    tokens = list(tokens)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        _damage(tokens, random)
    return "".join(tokens)


def _damage(tokens: list[str], random: Random) -> None:
    at = random.randrange(len(tokens) + 1)
    kind = random.randint(0, 5)
    if kind == 0 or not tokens:
        tokens.insert(at, random.choice(_SPLINTERS))
        return
    at = min(at, len(tokens) - 1)
    other = random.randrange(len(tokens))
    if kind == 1:
        del tokens[at]
    elif kind == 2:
        tokens[at], tokens[other] = tokens[other], tokens[at]
    elif kind == 3:
        tokens[at] = tokens[other]
    else:
        text = tokens[at]
        cut = random.randint(0, len(text))
        tokens[at] = text[:cut] + (random.choice(_SPLINTERS) if kind == 4 else "") + text[cut + random.randint(0, 1) :]

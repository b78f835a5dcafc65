"""Programs without an error, in any layout and with any comments that the language allows.

`programs()` is a strategy of their texts. They compile with `tests.dslc.catalogs.CATALOG`. Names are `memory-0`,
`webhook-0`, `agent-0`, `model-0` and so on, each kind from 0. The same number always gives the same program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from hypothesis import strategies as st

BOM = "\ufeff"

_COMMENTS = ("#", "//", "# {", "#}", '# """', '//"', "# é😀 ", "//\ttabs\t", "#[,", "# // #", "# secret \\", "//////")
_ALLOWS = ("# dslc: allow P501", "// dslc: allow P501 P502", "#dslc: allow R302")
_TEXTS = (
    "a", " ", "é", "😀", "{", "}", "#", "//", "'", ",", "[", "=", "\\n", '\\"', "\\\\", "\\u00e9", "\\ud83d\\ude00",
    "\t",
)  # fmt: skip
_FOREIGN = (
    'metadata {{\n  version "1"   \n\t# not {{ ours }}\n}}', "policy p{0} {{ allow: read(x) if x == 'y' }}",
    'function f{0}(a: T,\n  b: U) -> V {{\n    return "}}" // {{\n}}', "type T{0} = String",
    'schedule "nightly" {{ cron: """0 0\n * }} *""" }}',
    'agent other{0}(x: T) -> R {{\n    with memory = "x" {{ y() }}\n\n\n}}',
)  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """A block, a setting or a group, as tokens. The value of a list is its items."""

    key: str
    value: Value | None = None
    body: tuple[Entry, ...] | None = None


Value: TypeAlias = "str | tuple[Value, ...]"


@st.composite
def programs(draw: st.DrawFn, *, foreign: bool = False, comments: bool = True, secrets: bool = True) -> str:
    """Return a strategy of programs. `foreign`: with blocks of the wider language. `secrets`: with secrets in clear,
    and comments that allow it."""
    return write(draw(st.integers(0, 2**32)), foreign=foreign, comments=comments, secrets=secrets)


def write(number: int, *, foreign: bool = False, comments: bool = True, secrets: bool = True) -> str:
    """Return the program of a number."""
    random = Random(number)
    return _Layout(random, comments=comments, secrets=secrets).text(_blocks(random, foreign=foreign, secrets=secrets))


def _blocks(random: Random, *, foreign: bool, secrets: bool) -> list[Entry | str]:
    content = _Content(random, secrets=secrets)
    blocks: list[Entry | str] = [*content.memories(), *content.agents(), *content.webhooks(), *content.models()]
    if foreign:
        blocks += [
            shape.format(number) for number, shape in enumerate(random.choices(_FOREIGN, k=random.randint(0, 3)))
        ]
    random.shuffle(blocks)
    return blocks


class _Content:
    """Generates the content of the blocks."""

    def __init__(self, random: Random, *, secrets: bool) -> None:
        self._random = random
        self._secrets = secrets
        self._count = {kind: random.choice((0, 1, 1, 2, 3)) for kind in ("memory", "agent", "webhook", "model")}

    def _some(self, *entries: Entry) -> tuple[Entry, ...]:
        """Return some of the entries in any order."""
        return tuple(self._random.sample(entries, self._random.randint(0, len(entries))))

    def _one(self, *values: Value) -> Value:
        return self._random.choice(values)

    def _name(self, kind: str, number: int) -> str:
        return str(self._one(f"{kind}-{number}", f'"{kind}-{number}"'))

    def _string(self, *, long: bool = False) -> str:
        inside = self._random.choices(_TEXTS, k=self._random.choice((1, 2, 5, 12)))
        if not long or self._random.random() < 0.3:
            return f'"{"".join(inside)}x"'
        for _ in range(self._random.randint(0, 4)):
            line = self._random.choice(
                ("\n", "\n    ", "\n        ", "\n\t", '\n  "quoted"', "\n\n", "\n     \n  # no comment")
            )
            inside.insert(self._random.randint(0, len(inside)), line)
        edge = self._random.choice(("", "\n", "\n    ", "  "))
        return f'"""{edge}{"".join(inside)}y{edge}"""'

    def _secret(self) -> str:
        plain = [self._string()] if self._secrets and self._random.random() < 0.4 else []
        return str(self._one('"secret://env/A"', '"vault://b"', '"secret://file/c/d"', *plain))

    def _settings(self, *entries: Entry | None) -> tuple[Entry, ...]:
        given = [entry for entry in entries if entry is not None]
        self._random.shuffle(given)
        return tuple(given)

    def memories(self) -> list[Entry]:
        return [self._memory(number) for number in range(self._count["memory"])]

    def _memory(self, number: int) -> Entry:
        gates = Entry("gates", self._one(("tdd_proof",), ("tdd_proof", "review"), ("review", "tdd_proof")))
        stores = (Entry("store", "markdown"), Entry("store", "records", self._some(gates, Entry("segment", "10KB"))))
        search = (Entry("vector_weight", "0.25"), Entry("keyword_weight", "0.75"))
        more = self._some(
            # Records have no retention.
            self._random.choice(stores)
            if self._random.random() < 0.5
            else Entry("retention", self._one("90d", "1y6months", '"1h 30m"', "250ms")),
            Entry("search", None, self._random.choice((search, search[::-1]))),
            Entry("summarize", None, self._some(self._model(), Entry("max_words", "100"))),
        )
        path = Entry("path", f'"data/m{number}"')
        return Entry("memory", self._name("memory", number), self._settings(path, *more))

    def agents(self) -> list[Entry]:
        return [self._agent(number) for number in range(self._count["agent"])]

    def _agent(self, number: int) -> Entry:
        settings = self._some(
            Entry("instruction", self._string(long=True)),
            Entry("tools", self._one((), ("search",), ("search", '"remember"'))),
            Entry("max_steps", self._one("1", "10", "1_000")),
            Entry("enabled", self._one("true", "false")),
            Entry("context", None, self._some(Entry("max_tokens", "10_000"), Entry("compaction_threshold", "0.8"))),
            self._model(),
            Entry("summarizer", None, self._some(self._model(), Entry("max_words", "50"))),
            self._random.choice((Entry("thread", "delivery"), Entry("thread", "keyed", self._keyed()))),
            *self._core_blocks(),
            *self._reference("memory"),
        )
        return Entry("agent", self._name("agent", number), settings)

    def _core_blocks(self) -> list[Entry]:
        """Groups with a name, each of its own."""
        names = self._random.sample(
            ("persona", '"human"', "x-1", '"a.b"', "value"), self._random.choice((0, 0, 1, 2, 3))
        )
        more = (Entry("description", self._string()), Entry("value", self._string(long=True)), Entry("shared", "true"))
        return [Entry("block", name, self._some(*more)) for name in names]

    def _keyed(self) -> tuple[Entry, ...]:
        return self._settings(Entry("json_path", '"$.number"'), *self._some(Entry("separate_memory", "false")))

    def _model(self) -> Entry:
        """A language model: a service, or the name of a block."""
        headers = self._some(
            Entry(str(self._one("X-Team", '"X-Team"')), self._one('"core"', '"a { b"')),
            Entry(str(self._one("X-Key", '"X.Key"')), '"secret://env/K"'),
            Entry(str(self._one("host_", '"5"')), '"x"'),
        )
        options = self._some(Entry("url", '"https://example.org/v1"'), Entry("headers", None, headers))
        services = [Entry("model", "ollama"), Entry("model", '"openai"', options), Entry("model", "openai")]
        return self._random.choice((*services, *self._reference("model")))

    def models(self) -> list[Entry]:
        return [self._language_model(number) for number in range(self._count["model"])]

    def _language_model(self, number: int) -> Entry:
        service = self._model()
        while str(service.value).strip('"').startswith("model-"):
            service = self._model()
        others = tuple(self._name("model", other) for other in range(self._count["model"]) if other != number)
        more = self._some(
            Entry("temperature", self._one("0", "0.7", "2")),
            Entry("window", "8_192"),
            Entry("fallback", self._one((), others)),
            Entry("input_price", "0.15"),
            Entry("offered", "true"),
        )
        entry = Entry("service", service.value, service.body)
        return Entry("model", self._name("model", number), self._settings(entry, *more))

    def _reference(self, kind: str) -> list[Entry]:
        count = self._count[kind]
        return [Entry(kind, self._name(kind, self._random.randrange(count)))] if count else []

    def webhooks(self) -> list[Entry]:
        return [self._webhook(number) for number in range(self._count["webhook"])]

    def _webhook(self, number: int) -> Entry:
        secret = Entry("secret", self._one(self._secret(), (self._secret(),), (self._secret(), self._secret())))
        custom = self._some(
            Entry("header", '"X-Signature-256"'), Entry("encoding", "base64"), Entry("tolerance", '"1m 30s"')
        )
        more = self._some(
            self._random.choice((Entry("provider", "github"), Entry("provider", "custom", custom))),
            *self._reference("agent"),
            *self._reference("memory"),
            *(self._filter() for _ in range(self._random.choice((0, 1, 2)))),
            Entry("limits", None, self._some(Entry("body", "1.5MB"), Entry("per_minute", "60"))),
            Entry("allow_from", self._one('"192.0.2.0/24"', ('"2001:db8::1"', '"0.0.0.0/0"'))),
            Entry("concurrency", self._one("1", "1_000")),
            Entry("public_url", '"https://example.org/a/rather/long/path/to/a/webhook/that/a/proxy/rewrites"'),
            Entry("keep_body", "false"),
        )
        unverified = Entry("insecure_allow_unverified", "true") if self._random.random() < 0.1 else None
        path = Entry("path", f'"/w{number}"')
        return Entry("webhook", self._name("webhook", number), self._settings(path, unverified or secret, *more))

    def _filter(self, key: str = "filter", depth: int = 0) -> Entry:
        """Return a filter, or an entry that may replace it inside another one."""
        path = Entry("json_path", self._one('"$.action"', "\"$['x y'][0]\""))
        compared = (
            Entry("equals", self._one(self._string(), "-1.5", "true", "7")),
            Entry("one_of", self._one((self._string(),), ("-1.5", "true", '"a"'))),
            Entry("contains", self._string()),
            Entry("matches", self._one('"^a"', '"(?i)[a-z]+\\\\.b$"')),
        )
        where = self._random.choice((path, path, Entry("header", '"X-Where"')))
        entries = [where, *self._random.sample(compared, self._random.choice((1, 1, 2)))]
        if depth < 2 and self._random.random() < 0.3:
            alternatives = tuple(self._filter("filter", depth + 1) for _ in range(self._random.choice((1, 2))))
            entries += self._some(Entry("any", None, alternatives), self._filter("not", depth + 1))
        return Entry(key, None, self._settings(*entries))


class _Layout:
    """Generates the layout."""

    def __init__(self, random: Random, *, comments: bool, secrets: bool) -> None:
        self._random = random
        self._out: list[str] = []
        self._comments = random.choice((0.0, 0.1, 0.5)) if comments else 0.0
        self._secrets = secrets
        self._breaks = random.choice((0.1, 0.5, 0.9))
        self._line_ends: Sequence[str] = random.choice((("\n",), ("\n",), ("\r\n",), ("\n", "\n", "\r\n")))

    def text(self, blocks: Sequence[Entry | str]) -> str:
        bom = self._random.choice(("", "", BOM))
        self._space()
        for block in blocks:
            if isinstance(block, str):
                # It may end at the end of its line, and the text before it must not become a part of it.
                self._line()
                self._out.append(block.replace("\n", self._random.choice(self._line_ends)))
                self._line()
            else:
                self._entry(block)
            self._space()
        return bom + "".join(self._out)

    def _maybe(self, chance: float) -> bool:
        return self._random.random() < chance

    def _blank(self) -> None:
        self._out.append(self._random.choice((" ", " ", "  ", "\t", "      ")))

    def _line(self) -> None:
        """Return the end of a line, possibly with a comment before it."""
        if self._maybe(self._comments):
            self._blank()
            allowed = self._secrets and self._maybe(0.2)
            self._out.append(self._random.choice(_ALLOWS if allowed else _COMMENTS))
        self._out.append(self._random.choice(self._line_ends))

    def _space(self) -> None:
        """Return text between two settings or blocks."""
        self._blank()
        if self._maybe(self._breaks):
            for _ in range(self._random.choice((1, 1, 1, 2, 3))):
                self._line()
                if self._maybe(0.7):
                    self._blank()

    def _entry(self, entry: Entry) -> None:
        self._out.append(entry.key)
        if entry.value is not None:
            if not str(entry.value).startswith('"') or self._maybe(0.9):
                self._blank()
            self._value(entry.value)
        if entry.body is not None:
            if self._maybe(0.9):
                self._blank()
            self._out.append("{")
            self._space()
            for inner in entry.body:
                self._entry(inner)
                if inner.body is None and self._maybe(0.15):
                    self._out.append(self._random.choice((",", " ,")))
                self._space()
            self._out.append("}")

    def _value(self, value: Value) -> None:
        if isinstance(value, str):
            text = value if not value.startswith('"""') else value.replace("\n", self._random.choice(self._line_ends))
            self._out.append(text)
            return
        self._out.append("[")
        self._space()
        for item in value:
            self._value(item)
            self._space()
            if self._maybe(0.5):
                self._out.append(",")
                self._space()
        self._out.append("]")

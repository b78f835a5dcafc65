"""A secret in a file is never shown: in no report, repr or error, however broken the file around it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from dslc.blocks import KINDS
from dslc.blocks.values.types import SecretReference
from dslc.blocks.variant import Variant
from dslc.blocks.webhook import Webhook
from dslc.catalog import Catalog, CatalogEntry
from dslc.comparison.difference import difference
from dslc.comparison.report import render as render_difference
from dslc.comparison.report import render_json
from dslc.compiler import analyse
from dslc.program import Program
from dslc.report import FORMATS
from dslc.report.mask import masked
from dslc.report.program import render
from dslc.report.unified_diff import unified_diff
from dslc.setting import Setting
from dslc.source import Source
from dslc.vocabulary import Vocabulary
from tests.dslc.catalogs import BLOCKS, CATALOG
from tests.lanes import first_of

_SECRET = "hunter2Zq"
_LINES = (
    f'secret "{_SECRET}"',
    f'secret = "{_SECRET}"',
    f'secret: "{_SECRET}"',
    f"secret '{_SECRET}'",
    f"secret {_SECRET}",
    f'secret "{_SECRET}',
    f'secret """{_SECRET}"""',
    f'secret """\n{_SECRET}\n"""',
    f'secret """\n{_SECRET}',
    f'secret ["{_SECRET}" "secret://env/A"]',
    f'secret [\n  "secret://env/A"\n  "{_SECRET}"\n]',
    f'secret ["{_SECRET}"',
    f'secret "{_SECRET}" "{_SECRET}"',
    f'secret "a\\q{_SECRET}"',
    f'secret "x"{_SECRET}"',
    f'secret "x" {_SECRET}"',
    f'secret "{_SECRET}" {{ x 1 }}',
    f'secret "{_SECRET}"\n{{',
    f'secret "{_SECRET}" secret "{_SECRET}"',
    f'secrt "{_SECRET}"',
    f'secret "{_SECRET}" path "/v1" colour 5',
    f'provider custom {{ secret "{_SECRET}" }}',
    f"secret 5{_SECRET}",
    f'secret\n    "{_SECRET}"',
    f"secret # below\n\n    {_SECRET}",
    f'secret {{ "{_SECRET}" }}',
    f'secret {{\n    "{_SECRET}"\n}}',
    f'secret "x" {{ "{_SECRET}" }}',
    f'secret {{% "{_SECRET}" %}}',
    f'secret ({{ "{_SECRET}" }})',
    f"secret }}{{ {_SECRET}",
    f'secret }}{{ "{_SECRET}" }}',
    f'secret "{_SECRET} agent "x"',
    f'let secret "{_SECRET}"',
    f'secret secret "{_SECRET}"',
    f'"secret" "{_SECRET}"',
    f'"secret": "{_SECRET}",',
    f'secret "-----BEGIN KEY-----\nMIIE\n{_SECRET}/a+b\n-----END KEY-----"',
    f'secret "-----BEGIN KEY-----\n        {_SECRET}\n        -----END KEY-----',
    f"secret -----BEGIN KEY-----\nMIIE/{_SECRET}\n-----END KEY-----",
    f"secret '-----BEGIN KEY-----\n{_SECRET}\n-----END KEY-----'",
    f"secret '''\n{_SECRET}\n'''",
    f"secret `\n{_SECRET}\n`",
    f"secret |\n      {_SECRET}",
    f"secret <<EOF\n{_SECRET}\nEOF",
    f'secret {{ value "{_SECRET}" }}',
    f'secret {{\n    from "x"\n    value "{_SECRET}"\n}}',
    f'secret "x\\\n{_SECRET}"',
    f"secret x \\\n    {_SECRET}",
    f'secret "x \\" y \\\n{_SECRET}"',
    *(f'{key} "{_SECRET}"' for key in ("api-key", "apikey", "key", "pwd", "pass", "auth", "hmac", "authorization")),
    f'index postgres {{ url "postgresql://symbi:{_SECRET}@db.internal/x" }}',
    f'index postgres {{ url "https://db.internal/{_SECRET}" }}',
    f'index "postgres" {{\n    schema "s"\n    url "{_SECRET}" }}',
    f'store records {{ remote contextstream {{ url "https://x.example/{_SECRET}" }} }}',
    f'remote contextstrem {{ url "https://x.example/{_SECRET}" }}',
    f'embedding ollama {{ url "http://user:{_SECRET}@x.example" }}',
    f"embedding ollama {{ url http://user:a/{_SECRET}@x.example }}",
    f'instruction "see https://user:{_SECRET}@x.example"',
    f'secret "secret://{_SECRET}"',
)


def _reports(*texts: str, catalog: Catalog = CATALOG) -> str:
    """Return all reports of a program with a file of each text."""
    done = analyse([Source(f"{number}.symbiont", text) for number, text in enumerate(texts)], catalog)
    shown = [form.render(done) for form in FORMATS.values()] + [FORMATS["text"].render(done, colour=True)]
    return "\n".join(
        [*shown, repr(done), repr(done.program), repr(done.diagnostics), render(done.program, Vocabulary(catalog))]
    )


_AROUND = (
    "webhook w {\n    %s\n}\n",
    "webhook w { path 5 %s }",
    "%s",
    'webhook w {\n    path "/w"\n    %s\n    nothing\n}}\n',
)


def _showing(texts: Sequence[str], catalog: Catalog = CATALOG) -> list[str]:
    """Return those of the texts whose reports show the secret. Many are in one program; where that shows it, each is
    tried alone."""
    found: list[str] = []
    for start in range(0, len(texts), 50):
        group = texts[start : start + 50]
        if _SECRET in _reports(*group, catalog=catalog):
            found += [each for each in group if _SECRET in _reports(each, catalog=catalog)] or group
    return found


def test_no_report_shows_it() -> None:
    texts = [around % line for around in _AROUND for line in _LINES if "secret://hunter" not in line]
    assert _showing(texts) == []


# A bare word after a closed string is a key, and keys are shown.
_WHOLE = [line for line in _LINES[:-1] if not line.startswith('secret "x"')]


@given(st.sampled_from(_WHOLE), st.data())
def test_no_report_shows_it_when_the_file_is_cut_off(line: str, data: st.DataObject) -> None:
    text = f'webhook w {{\n    path "/w" colour 5\n    {line}\n}}\n'
    end = data.draw(st.integers(text.rindex(_SECRET) + len(_SECRET), len(text)))
    assert _SECRET not in _reports(text[:end])


@pytest.mark.parametrize(
    "header",
    [
        f"X-Api-Key {_SECRET}",
        f"X-Api-Key {_SECRET}-!",
        f"X-Api-Key /{_SECRET}",
        f"X-Api-Key = {_SECRET}",
        f"X-Api-Key [{_SECRET}]",
        f"X-Api-Key 5{_SECRET}",
        f"X-Api-Key '{_SECRET}'",
        f'X-Api-Key "{_SECRET}"',
        f'X-Api-Key "{_SECRET}ü"',
        f'X-Api-Key "{_SECRET}',
        f'X-Api-Key: "{_SECRET}"',
        f"X-Api-Key\n    {_SECRET}",
        f'X-Api-Key "a" "{_SECRET}"',
        f'"X-Api-Key": "{_SECRET}"',
        f'"X-Api\\u002DKey" "{_SECRET}',
        f'"X-{"a" * 70}-Token" "{_SECRET}',
    ],
)
def test_no_report_shows_the_value_of_a_header_that_is_a_secret(header: str) -> None:
    text = f"model m {{\n    service openai {{\n        headers {{\n            {header}\n        }}\n    }}\n}}\n"
    assert _SECRET not in _reports(text, catalog=Catalog.installed())


def test_a_literal_in_a_header_that_is_a_secret_may_be_sent() -> None:
    text = f'model m {{ service openai {{ headers {{ X-Api-Key "{_SECRET}ü" }} }} offered true }}'
    done = analyse([Source("a.symbiont", text)], Catalog.installed())
    assert [found.code for found in done.diagnostics] == ["P501", "T406"]


@pytest.mark.parametrize(
    "line",
    [
        f'index postgres {{ url "postgresql://symbi:{_SECRET}@db.internal/x" }}',
        f'store records {{ remote contextstream {{ url "https://x.example/{_SECRET}" api_key "a" project "p" }} }}',
    ],
)
def test_what_a_warning_calls_a_secret_is_shown_in_no_report_and_no_diff(line: str) -> None:
    source = Source("a.symbiont", f"# größer\nmemory   notes {{ {line} }}\n")
    done = analyse([source], Catalog.installed())
    assert "P501" in {found.code for found in done.diagnostics}
    shown = [form.render(done, colour=False) for form in FORMATS.values()]
    formatted_ = Source("a.symbiont", source.data.replace(b"   ", b" "))
    assert _SECRET not in "\n".join([*shown, unified_diff(source, formatted_.data, colour=False)])


_URL = f"https://user:{_SECRET}@x.example/a"


def _with_url(settings: Iterable[Setting]) -> Iterator[str]:
    """Return bodies with the URL as value of each of these settings and of nested ones, in valid and invalid forms."""
    for setting in settings:
        yield from (f'{setting.name} "{_URL}"', f"{setting.name} {_URL}", f'{setting.name} ["{_URL}" "{_URL}"]')
        rows = Catalog.installed().families.get(setting.family or "", ()) if setting.type == "variant" else ()
        yield from (f"{setting.name} {{ {body} }}" for body in _with_url(_of_one_level(setting)))
        yield from (f"{setting.name} {row.name} {{ {body} }}" for row in rows for body in _with_url(row.options))


def _of_one_level(setting: Setting) -> list[Setting]:
    """Return the settings of a group; filters are nested without end."""
    return [inner for inner in setting.settings if inner.name not in {"any", "not"}]


@first_of("kind", sorted(KINDS))
def test_no_report_shows_the_password_of_a_url_whatever_setting_it_is_given_to(kind: str) -> None:
    vocabulary = Vocabulary(Catalog.installed())
    bodies = enumerate(_with_url(vocabulary.kinds[kind].values()))
    assert _showing([f"{kind} n{number} {{ {body} }}\n" for number, body in bodies], Catalog.installed()) == []


@pytest.mark.parametrize(
    "text",
    [
        f'memory "{_URL}" {{ }}',
        f'"{_URL}" x {{ }}',
        f'memory n {{ "{_URL}" "x" }}',
        f"memory n {{ path '{_URL}' }}",
        f"memory {_URL} {{ }}",
        f"# dslc: allow {_URL}",
        f'memory n {{ path "a\\q{_URL}" }}',
        f'memory n {{ path "{_URL} \n}}',
        f'agent a {{ instruction "https://u:a\\"{_SECRET}@h" }}',
        f'agent a {{ instruction "https://u:a\'{_SECRET}@h" }}',
        f'memory n {{ store "https://u:{_SECRET}{"x" * 70}@h" }}',
        f'memory n {{ index qdrant {{ url "https://u:{_SECRET}" }} }}',
    ],
)
def test_no_report_shows_the_password_of_a_url_wherever_it_stands(text: str) -> None:
    assert _SECRET not in _reports(f"{text}\n", catalog=Catalog.installed())


def test_a_difference_tells_that_a_password_changed_and_shows_neither() -> None:
    catalog = Catalog.installed()
    text = 'agent a {{ memory m instruction "see https://u:{}@h/" }}\nmemory m {{ path "m" }}\n'
    old, new = (
        analyse([Source("a.symbiont", text.format(password))], catalog).program
        for password in (_SECRET, _SECRET.upper())
    )
    vocabulary = Vocabulary(catalog)
    found = difference(old, new, vocabulary)
    shown = render_difference(found, vocabulary, colour=False)
    assert "agent a: instruction: a password in the value changed" in shown
    assert _SECRET.upper() not in f"{shown}{render_json(found)}".upper()


def test_a_secret_of_an_unknown_kind_is_hidden_where_a_warning_names_it() -> None:
    option = Setting("whatever", "secret")
    catalog = Catalog({"index": (CatalogEntry("vast", options=(option,)),)}, BLOCKS)
    done = analyse([Source("a.symbiont", f'memory größe {{ index vast {{ whatever "ö{_SECRET}" }} }}\n')], catalog)
    report = FORMATS["text"].render(done, colour=False)
    assert "P501" in report
    assert "whatever ***" in report
    assert _SECRET not in report


def test_a_url_is_shown_where_it_is_no_secret() -> None:
    text = 'index qdrant { url "http://127.0.0.1:6333" }\nwebhook secret { path "/w@x" public_url "https://x:80/a" }'
    assert masked(text) == text


def test_a_reference_is_shown() -> None:
    text = 'secret ["secret://env/A" "vault://b"] path "/w"'
    assert masked(text) == text


@pytest.mark.parametrize(
    "text",
    [
        'secret\npath "/w"',
        "agent secret-keeper {\n    instruction\n}",
        'filter { equals "secret" contains "x" }',
        'header "X-Token"\nprefix\n',
    ],
)
def test_a_key_is_shown_where_a_secret_has_no_value(text: str) -> None:
    assert masked(text) == text


def test_the_settings_below_a_secret_that_is_not_closed_are_shown() -> None:
    below = '\n    path "/w"\n    keep_body true\n}\nagent a {\n    instruction "x\n}\n'
    assert masked(f'webhook w {{\n    secret "{_SECRET}{below}').endswith(below)


def test_columns_stay_where_they_are() -> None:
    text = f'a\nsecret "{_SECRET}" path "/w"\n'
    assert masked(text) == re.sub(f'"{_SECRET}"', "*" * (len(_SECRET) + 2), text)


def test_no_repr_of_a_definition_shows_it() -> None:
    class Options(BaseModel):
        api_key: SecretReference

    webhook = Webhook(
        name="w",
        path="/w",
        secret=(_SECRET,),
        provider=Variant(name="custom", options={"key": _SECRET, "in": [{"x": _SECRET}]}),
    )
    program = Program(webhooks={"w": webhook})
    assert _SECRET not in f"{webhook!r}{webhook}{program!r}{webhook.provider.options!r}{webhook.provider}"
    assert Options(api_key="vault://a").api_key == "secret://vault/a"


def test_no_error_of_a_definition_shows_it() -> None:
    with pytest.raises(ValidationError) as refused:
        Webhook.model_validate(
            {"name": "w", "path": "/w", "secret": _SECRET, "provider": {"name": "x", "options": _SECRET}}
        )
    assert _SECRET not in f"{refused.value}"

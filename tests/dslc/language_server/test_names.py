"""Names across files: their positions, and the spelling of a new one."""

from __future__ import annotations

import pytest

from dslc.editing.edit import apply
from dslc.language_server.names import RenameRefused
from dslc.language_server.project import EditorProject
from tests.dslc.language_server.programs import HERE, at_cursor, project, typed

_TEXTS = {
    "a": 'memory notes {}\nwebhook w { path "/a" memory "notes" agent é }\n',
    "b": '# é😀\nagent a { memory notes }\nagent b { memory other }\nwebhook v { path "/b" memory "notes" agent a }\n',
}


def _renamed(made: EditorProject, kind: str, old: str, new: str) -> dict[str, str]:
    edits = made.names.rename_edits(kind, old, new)
    texts = {}
    for file in {file for file, _ in edits}:
        source = made.source(file)
        assert source is not None
        texts[file.removeprefix("untitled:")] = apply(source.data, [edit for at, edit in edits if at == file]).decode()
    return texts


def test_a_name_is_changed_everywhere_and_nothing_else_is() -> None:
    assert _renamed(project(**_TEXTS), "memory", "notes", "facts") == {
        name: text.replace("notes", "facts") for name, text in _TEXTS.items()
    }


def test_quotes_stay_and_come_where_they_are_needed() -> None:
    assert _renamed(project(a='memory m {}\nagent a { memory "m" }\n'), "memory", "m", "m.2") == {
        "a": 'memory "m.2" {}\nagent a { memory "m.2" }\n'
    }


@pytest.mark.parametrize("new", ["", "a b", "é", "..", "x" * 65, "n\n"])
def test_what_is_no_name_is_refused(new: str) -> None:
    with pytest.raises(RenameRefused, match="name"):
        _renamed(project(**_TEXTS), "memory", "notes", new)


def test_a_name_that_is_taken_is_refused() -> None:
    with pytest.raises(RenameRefused, match="another agent has the name b"):
        _renamed(project(**_TEXTS), "agent", "a", "b")


def test_a_model_is_renamed_wherever_it_is_named_and_never_to_a_service() -> None:
    text = (
        "model fast { service ollama }\nmodel slow { service ollama fallback [fast] }\n"
        'agent a { model fast summarizer { model "fast" } }\nmemory m { summarize { model fast } }\n'
    )
    assert _renamed(project(a=text), "model", "fast", "quick") == {"a": text.replace("fast", "quick")}
    with pytest.raises(RenameRefused, match="ollama is the name of a service"):
        _renamed(project(a=text), "model", "fast", "ollama")


def test_a_server_is_renamed_in_the_tools_of_agents_and_never_to_a_name_with_a_dot() -> None:
    text = 'mcp git { url "https://example.org" }\nagent a { tools ["git.*" "git.push" search] }\n'
    new = 'mcp hub-2 { url "https://example.org" }\nagent a { tools ["hub-2.*" "hub-2.push" search] }\n'
    assert _renamed(project(a=text), "mcp", "git", "hub-2") == {"a": new}
    with pytest.raises(RenameRefused, match="has no dot"):
        _renamed(project(a=text), "mcp", "git", "git.hub")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("memory no|tes {}", ("memory", "notes")),
        ('memory "no|tes" {}', ("memory", "notes")),
        ("webhook w { agent |x }", ("agent", "x")),
        ("webhook w { agent x| }", ("agent", "x")),
        ("agent old|(x: T) -> R { a }", ("agent", "old")),
        ("webhook w|x { pa", ("webhook", "wx")),
        ("webhook w { ag|ent x }", None),
        ("webhook w { provider git|hub }", None),
        ("policy p|x { }", None),
        ("memory |", None),
        ("agent a { model fa|st }", ("model", "fast")),
        ("agent a { model oll|ama }", None),
        ("memory m { summarize { model fa|st } }", ("model", "fast")),
        ("model m { fallback [slow, fa|st] }", ("model", "fast")),
        ("model m { service oll|ama }", None),
        ("agent a { block per|sona {} }", None),
        ("model fa|st {}", ("model", "fast")),
    ],
)
def test_the_name_at_a_place_is_known(text: str, expected: tuple[str, str] | None) -> None:
    made, cursor_context, _ = at_cursor(text)
    assert made.names.at(cursor_context) == expected


def test_a_block_of_the_wider_language_declares_its_name_alone() -> None:
    made = project(here="agent old(x: T) -> R { a }\nwebhook w { agent old }\n")
    assert [(named.span.start, named.span.end) for named in made.names.of("agent", "old")] == [(6, 9), (45, 48)]


def test_names_follow_the_text() -> None:
    made = project(here="agent a {}\n")
    assert made.names.declared_names("agent") == ["a"]
    typed(made, "\n\nagent b {}\n")
    made.settle()
    assert [(named.name, named.span.start) for named in made.names.all()] == [("b", 8)]
    made.close(HERE)
    assert list(made.names.all()) == []

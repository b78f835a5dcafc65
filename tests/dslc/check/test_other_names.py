"""A provider is suggested for another name that occurs in its documentation."""

from __future__ import annotations

import pytest

from dslc.catalog import Catalog
from dslc.compiler import analyse
from dslc.source import Source


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("whatsapp", "did you mean `meta`?"),
        ("Facebook", "did you mean `meta`?"),
        ("x", "did you mean `twitter`?"),
        ("sns", "did you mean `aws-sns`?"),
        ("forgejo", "did you mean `gitea`?"),
        ("Stripe", "did you mean `stripe`?"),
        ("secret", "choices are"),  # of many
        ("asana", "choices are"),
        ("\u202e", "choices are"),
        ("w" * 5000, "choices are"),
    ],
)
def test_a_name_that_only_the_documentation_has_is_a_hint_and_no_fix(word: str, hint: str) -> None:
    program = f'webhook w {{ path "/w", provider "{word}", secret "secret://env/A" }}'
    [found] = analyse([Source("page", program)], Catalog.installed()).diagnostics
    assert (found.code, str(found.hint).startswith(hint)) == ("T403", True), found
    assert (found.fix is not None) == (word == "Stripe")

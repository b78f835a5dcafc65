"""Filters: conditions that a delivery must meet to be run. Conditions nest at most three deep, so that the settings
form a finite tree."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from dslc.blocks.block import GroupModel
from dslc.blocks.values.types import As, HeaderName, JsonPath, Pattern, Relation, Scalar

_SUBJECTS = ("json_path", "header")
_TESTS = ("equals", "contains", "one_of", "exists", "matches")
_PARTS = (*_SUBJECTS, "any", "not")
_ABOUT = Relation(needs_one=_SUBJECTS)


class Condition(GroupModel):
    """A value of a delivery, in its body or in a header, and the comparisons it must pass.

    All comparisons of a condition must hold for the same node.
    """

    parts: ClassVar[tuple[str, ...]] = _SUBJECTS

    json_path: Annotated[
        JsonPath | None,
        Relation(one_of=_SUBJECTS, excludes=("header",), needs_one=_TESTS),
        Field(examples=["$.action"]),
    ] = Field(
        default=None,
        description="The value in the body to check (JSONPath, RFC 9535). If it finds several nodes, one that "
        "matches is enough.",
    )
    header: Annotated[HeaderName | None, Relation(needs_one=_TESTS)] = Field(
        default=None,
        description="The header to check, instead of the body. A request that contains it twice is refused.",
        examples=["X-Environment"],
    )
    equals: Annotated[Scalar | None, As("scalar"), _ABOUT] = Field(
        default=None,
        description="The value equals this one. Numbers are compared by value, texts by their characters; a "
        "text also equals a number or a boolean with this spelling in JSON.",
    )
    contains: Annotated[str | None, _ABOUT] = Field(
        default=None, description="The value is a text, or a list, that contains this text.", examples=["invoice."]
    )
    one_of: Annotated[tuple[Annotated[Scalar, As("scalar")], ...], _ABOUT] = Field(
        default=(), min_length=1, description="The value equals one of these.", examples=[("opened", "reopened")]
    )
    exists: Annotated[bool | None, _ABOUT] = Field(
        default=None,
        description="The value is present, even if it is null; with `false`, it is absent.",
        examples=[True],
    )
    matches: Annotated[Pattern | None, _ABOUT] = Field(
        default=None,
        description="The value is a text in which this pattern (RE2) is found, anywhere unless `^` and `$` are used.",
        examples=["^refs/heads/(main|release-.*)$"],
    )

    @model_validator(mode="after")
    def _compares(self) -> Condition:
        given = {name for name in (*_PARTS, *_TESTS) if getattr(self, _FIELDS.get(name, name), None) not in (None, ())}
        subjects, tests = given.intersection(_SUBJECTS), given.intersection(_TESTS)
        if not given.intersection(self.parts):
            raise ValueError(f"a filter needs {_alternatives(self.parts)}")
        if len(subjects) > 1:
            raise ValueError("`json_path` and `header` exclude each other")
        if subjects and not tests:
            raise ValueError(f"a filter needs {_alternatives(_TESTS)}")
        if tests and not subjects:
            raise ValueError(f"`{min(tests)}` needs `json_path` or `header`")
        if self.exists is False and len(tests) > 1:
            raise ValueError("`exists false` cannot be combined with another comparison")
        return self


_FIELDS = {"not": "not_"}


def _alternatives(names: tuple[str, ...]) -> str:
    return " or ".join(f"`{name}`" for name in names)


_NESTED = Relation(one_of=_PARTS, excludes=("header",), needs_one=_TESTS)
_JSON_PATH = Condition.model_fields["json_path"].description
_ANY = "At least one of these filters matches. If given several times, each must match."
_NOT = "This filter does not match. If given several times, none of them may match."


class InnerAny(GroupModel):
    """Alternatives inside a nested filter."""

    filter: tuple[Condition, ...] = Field(min_length=1, description="One of the alternatives.")


class _Nesting(Condition):
    """A condition, or filters that it is made of."""

    parts: ClassVar[tuple[str, ...]] = _PARTS

    json_path: Annotated[JsonPath | None, _NESTED] = Field(default=None, description=_JSON_PATH, examples=["$.action"])


class InnerFilter(_Nesting):
    """Filter inside another filter."""

    any: tuple[InnerAny, ...] = Field(default=(), description=_ANY)
    not_: tuple[Condition, ...] = Field(default=(), alias="not", description=_NOT)


class AnyOf(GroupModel):
    """Alternatives."""

    filter: tuple[InnerFilter, ...] = Field(min_length=1, description="One of the alternatives.")


class WebhookFilter(_Nesting):
    """Filter of a webhook: a delivery is run only if it matches."""

    any: tuple[AnyOf, ...] = Field(default=(), description=_ANY)
    not_: tuple[InnerFilter, ...] = Field(default=(), alias="not", description=_NOT)

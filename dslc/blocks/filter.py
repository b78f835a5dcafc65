"""Filters: what a delivery must say to be run. Conditions nest three deep, so that the language stays finite."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from dslc.blocks.block import Group
from dslc.blocks.values.types import As, HeaderName, JsonPath, Pattern, Relation

Scalar = str | int | float | bool

_SUBJECTS = ("json_path", "header")
_TESTS = ("equals", "contains", "one_of", "exists", "matches")
_PARTS = (*_SUBJECTS, "any", "not")
_ABOUT = Relation(needs_one=_SUBJECTS)


class Condition(Group):
    """One thing that a delivery says, in its body or in a header, and how it is compared.

    Everything that a condition says must hold, and must hold of one and the same node.
    """

    parts: ClassVar[tuple[str, ...]] = _SUBJECTS

    json_path: Annotated[
        JsonPath | None,
        Relation(one_of=_SUBJECTS, excludes=("header",), needs_one=_TESTS),
        Field(examples=["$.action"]),
    ] = Field(
        default=None,
        description="Where to look in the body (JSONPath, RFC 9535). Any one of several nodes that it finds may match.",
    )
    header: Annotated[HeaderName | None, Relation(needs_one=_TESTS)] = Field(
        default=None,
        description="The header to look at, instead of the body. A request that sends it twice is refused.",
        examples=["X-Environment"],
    )
    equals: Annotated[Scalar | None, As("scalar"), _ABOUT] = Field(
        default=None,
        description="It is this value. Numbers are compared by value, texts by their characters; a text equals a "
        "number or truth value that JSON writes so.",
    )
    contains: Annotated[str | None, _ABOUT] = Field(
        default=None, description="It is a text, or a list, that holds this text.", examples=["invoice."]
    )
    one_of: Annotated[tuple[Annotated[Scalar, As("scalar")], ...], _ABOUT] = Field(
        default=(), min_length=1, description="It is one of these values.", examples=[("opened", "reopened")]
    )
    exists: Annotated[bool | None, _ABOUT] = Field(
        default=None,
        description="It is there, whatever it is, null too; with `false`, it is not there.",
        examples=[True],
    )
    matches: Annotated[Pattern | None, _ABOUT] = Field(
        default=None,
        description="It is a text in which this pattern (RE2) is found, anywhere unless `^` and `$` say where.",
        examples=["^refs/heads/(main|release-.*)$"],
    )

    @model_validator(mode="after")
    def _compares(self) -> Condition:
        given = {name for name in (*_PARTS, *_TESTS) if getattr(self, _FIELDS.get(name, name), None) not in (None, ())}
        subjects, tests = given.intersection(_SUBJECTS), given.intersection(_TESTS)
        if not given.intersection(self.parts):
            raise ValueError(f"a filter needs {_listed(self.parts)}")
        if len(subjects) > 1:
            raise ValueError("`json_path` and `header` exclude each other")
        if subjects and not tests:
            raise ValueError(f"a filter needs {_listed(_TESTS)}")
        if tests and not subjects:
            raise ValueError(f"`{min(tests)}` needs `json_path` or `header`")
        if self.exists is False and len(tests) > 1:
            raise ValueError("nothing can be compared with what does not exist")
        return self


_FIELDS = {"not": "not_"}


def _listed(names: tuple[str, ...]) -> str:
    return " or ".join(f"`{name}`" for name in names)


_NESTED = Relation(one_of=_PARTS, excludes=("header",), needs_one=_TESTS)
_JSON_PATH = Condition.model_fields["json_path"].description
_ANY = "At least one of these filters holds. May be given several times, and then each must hold."
_NOT = "This does not hold. May be given several times, and then none of them may hold."


class InnerAny(Group):
    """Alternatives inside a filter that is itself inside another."""

    filter: tuple[Condition, ...] = Field(min_length=1, description="One of the alternatives.")


class InnerFilter(Condition):
    """A filter inside another one."""

    parts: ClassVar[tuple[str, ...]] = _PARTS

    json_path: Annotated[JsonPath | None, _NESTED] = Field(default=None, description=_JSON_PATH, examples=["$.action"])
    any: tuple[InnerAny, ...] = Field(default=(), description=_ANY)
    not_: tuple[Condition, ...] = Field(default=(), alias="not", description=_NOT)


class AnyOf(Group):
    """Alternatives."""

    filter: tuple[InnerFilter, ...] = Field(min_length=1, description="One of the alternatives.")


class Filter(Condition):
    """What a delivery must say to be wanted."""

    parts: ClassVar[tuple[str, ...]] = _PARTS

    json_path: Annotated[JsonPath | None, _NESTED] = Field(default=None, description=_JSON_PATH, examples=["$.action"])
    any: tuple[AnyOf, ...] = Field(default=(), description=_ANY)
    not_: tuple[InnerFilter, ...] = Field(default=(), alias="not", description=_NOT)

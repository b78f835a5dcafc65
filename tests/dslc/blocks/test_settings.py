"""Settings that are read from the fields of a model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

from dslc.blocks import TABLE
from dslc.blocks.block import NamedGroupModel
from dslc.blocks.setting import settings_of
from dslc.blocks.values.types import Duration, Form, HeaderName, HeaderValue, Relation, SecretReference, Size
from dslc.setting import Setting


class Inner(BaseModel):
    depth: int = Field(ge=1, le=9, description="How deep.")


class Options(BaseModel):
    tolerance: Annotated[Duration, Field(ge=timedelta(seconds=1))] = timedelta(minutes=5)
    most: Size | None = Field(default=None, le=1_000_000)
    encoding: Literal["hex", "base64"] = "hex"
    keys: tuple[SecretReference, ...] = ()
    inner: Inner
    old: Annotated[str | None, Relation(excludes=("encoding",))] = None


def test_types_bounds_and_defaults_are_as_the_language_writes_them() -> None:
    found = {setting.name: setting for setting in settings_of(Options)}
    assert (found["tolerance"].type, found["tolerance"].default, found["tolerance"].minimum) == ("duration", "5m", "1s")
    assert (found["most"].type, found["most"].required, found["most"].maximum) == ("size", False, "1MB")
    assert found["encoding"].choices == ("hex", "base64")
    assert (found["keys"].type, found["keys"].many) == ("secret", True)
    assert found["inner"].settings == (
        Setting(name="depth", type="integer", doc="How deep.", required=True, minimum=1, maximum=9),
    )
    assert found["old"].excludes == ("encoding",)


class Part(NamedGroupModel):
    """A group with a name."""

    size: int = 1


class Shapes(BaseModel):
    part: tuple[Part, ...] = ()
    headers: Mapping[Annotated[HeaderName, Form("[^:]+", "a header")], HeaderValue] = Field(
        default={}, examples=[{"X-Team": "core"}]
    )


def test_groups_with_a_name_and_maps_are_settings_of_their_own_shape() -> None:
    part, headers = settings_of(Shapes)
    assert (part.type, part.named, part.repeats) == ("group", True, True)
    assert [setting.name for setting in part.settings] == ["size"]
    assert (part.takes_body(1), part.takes_body(2)) == (False, True)
    assert (headers.type, headers.keys, headers.items) == ("map", "header_name", "header_value")
    assert (headers.form, headers.form_says, headers.default) == ("[^:]+", "a header", None)
    assert (headers.takes_body(1), headers.takes_body(2)) == (True, False)
    assert headers.item("X-Team") == Setting("X-Team", "header_value")


def test_a_map_of_groups_is_refused() -> None:
    class Odd(BaseModel):
        inner: Mapping[str, Inner] = {}

    with pytest.raises(TypeError, match=r"Odd\.inner"):
        settings_of(Odd)


@pytest.mark.parametrize("model", [Options, Shapes, *TABLE.values()])
def test_settings_survive_being_json(model: type[BaseModel]) -> None:
    for setting in settings_of(model):
        assert Setting.from_json(json.loads(json.dumps(setting.to_json()))) == setting


@pytest.mark.parametrize("model", TABLE.values())
def test_every_setting_of_a_block_is_documented(model: type[BaseModel]) -> None:
    assert model.__doc__
    assert all(setting.doc for setting in settings_of(model))


def test_a_type_the_language_cannot_write_is_refused() -> None:
    class Odd(BaseModel):
        when: complex = 0j

    with pytest.raises(TypeError, match=r"Odd\.when"):
        settings_of(Odd)

"""Settings of the language, read from the fields of models."""

from __future__ import annotations

import collections.abc
import types
from dataclasses import asdict
from datetime import timedelta
from functools import cache
from keyword import iskeyword
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Le, MaxLen, MinLen
from pydantic import AfterValidator, BaseModel
from pydantic.fields import FieldInfo

from dslc.blocks.values.quantity import write_duration, write_size
from dslc.blocks.values.types import HEAD, SINGLE, As, Form, Relation
from dslc.blocks.variant import Variant
from dslc.setting import Setting, ValueType

_PLAIN: dict[Any, ValueType] = {str: "string", int: "integer", float: "number", bool: "boolean"}


def setting_name(field: str) -> str:
    """Name of the setting of a model's field. A name that is a Python keyword has a trailing `_` in the model:
    `not_`."""
    return field.removesuffix("_")


def field_name(setting: str) -> str:
    """Name of the model's field for a setting; the inverse of `setting_name`."""
    return f"{setting}_" if iskeyword(setting) else setting


@cache
def settings_of(model: type[BaseModel]) -> tuple[Setting, ...]:
    """The settings that `model` describes, in the order of its fields.

    Raises TypeError for a field whose type the language cannot write.
    """
    return tuple(
        _setting(model, setting_name(name), field)
        for name, field in model.model_fields.items()
        if HEAD not in field.metadata
    )


def _setting(model: type[BaseModel], name: str, field: FieldInfo) -> Setting:
    try:
        shape = _shape(field.annotation, tuple(field.metadata))
    except TypeError as error:
        raise TypeError(f"{model.__name__}.{name}: {error}") from error
    default = None if field.is_required() else field.get_default(call_default_factory=True)
    return Setting(
        name=name,
        doc=field.description or "",
        required=field.is_required(),
        default=_json_value(default, shape["type"]),
        example=_json_value(field.examples[0], shape["type"]) if field.examples else None,
        **shape,
    )


def _shape(annotation: Any, metadata: tuple[Any, ...]) -> dict[str, Any]:
    """Type of the value in the language, with its bounds, as keyword arguments of `Setting`."""
    if get_origin(annotation) is Annotated:
        inner, *outer = get_args(annotation)
        return _shape(inner, (*outer, *metadata))
    if get_origin(annotation) in {Union, types.UnionType}:
        options = [option for option in get_args(annotation) if option is not types.NoneType]
        if len(options) == 1:
            return _shape(options[0], metadata)
        annotation = None
    if get_origin(annotation) in {dict, collections.abc.Mapping}:
        return {**_map(*get_args(annotation)), **_bounds(metadata, "map")}
    if get_origin(annotation) in {tuple, list}:
        items, *rest = get_args(annotation)
        if rest not in ([], [...]):
            raise TypeError(f"a tuple of fixed length cannot be written: {annotation}")
        return {**_shape(items, ()), "many": True, **_bounds(metadata, "")}
    return _one(annotation, metadata)


def _map(keys: Any, values: Any) -> dict[str, Any]:
    """A map: the types of its keys and values. Only the form of a key may be restricted."""
    key, value = _shape(keys, ()), _shape(values, ())
    form: dict[str, Any] = {name: key.pop(name) for name in list(key) if name in {"form", "form_says"}}
    shapes = [{name: item for name, item in shape.items() if item is not None} for shape in (key, value)]
    if any(shape.keys() != {"type"} for shape in shapes):
        raise TypeError("the keys and values of a map have plain types")
    return {"type": "map", "keys": key["type"], "items": value["type"], **form}


def _one(annotation: Any, metadata: tuple[Any, ...]) -> dict[str, Any]:
    ways = [item for item in metadata if isinstance(item, As)]
    if not ways and any(isinstance(item, AfterValidator) or _has_pattern(item) for item in metadata):
        raise TypeError("the checker cannot see what this validator refuses: use a `Form`")
    found: dict[str, Any]
    if ways:
        way = ways[-1]  # the outermost, as in `Annotated[Name, As("reference", …)]`
        found = {"type": way.written, "block": way.block, "family": way.family}
        found |= {"choices": way.choices} if way.choices else {}
        found |= {"guards": True} if way.guards else {}
    elif get_origin(annotation) is Literal:
        found = {"type": "word", "choices": get_args(annotation)}
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel) and annotation is not Variant:
        found = {"type": "group", "settings": settings_of(annotation), "named": _is_named(annotation)}
    elif annotation in _PLAIN:
        found = {"type": _PLAIN[annotation]}
    else:
        raise TypeError(f"a value of this type cannot be written in a program: {annotation}")
    return {**found, **_bounds(metadata, found["type"])}


def _is_named(model: type[BaseModel]) -> bool:
    """True if a group has a name in its head."""
    return any(HEAD in field.metadata for field in model.model_fields.values())


def _has_pattern(item: Any) -> bool:
    """True if `item` is pydantic's metadata for `Field(pattern=…)`."""
    return not isinstance(item, Form) and getattr(item, "pattern", None) is not None


def _bounds(metadata: tuple[Any, ...], written: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for item in metadata:
        match item:
            case Ge(ge=bound):
                found["minimum"] = _json_value(bound, written)
            case Le(le=bound):
                found["maximum"] = _json_value(bound, written)
            case MinLen(min_length=length):
                found["min_length"] = length
            case MaxLen(max_length=length):
                found["max_length"] = length
            case Form():
                found |= {"form": item.pattern, "form_says": item.says}
            case Relation():
                found |= asdict(item)
            case _ if item is SINGLE:
                found["single"] = True
    return found


def _json_value(value: Any, written: str) -> Any:
    """Convert a default or bound to plain JSON, in the spelling of the language."""
    if isinstance(value, Variant):
        return value.name
    if isinstance(value, BaseModel):
        return None
    if isinstance(value, collections.abc.Mapping):
        return dict(value) or None
    if isinstance(value, timedelta):
        return write_duration(value)
    if isinstance(value, tuple | list):
        return [_json_value(item, written) for item in value if not isinstance(item, BaseModel)]
    return write_size(value) if written == "size" and isinstance(value, int) else value

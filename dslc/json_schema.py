"""JSON Schema (2020-12) of a compiled program, as `dslc.report.program` renders it.

Rules that a schema cannot express are in the descriptions: bounds of durations, and that used names are declared.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from dslc.blocks import TABLE
from dslc.blocks.values.header import TOKEN
from dslc.blocks.values.names import NAME_RULE
from dslc.blocks.values.quantity import LARGEST_SIZE, read_size
from dslc.blocks.values.tool import FORM as TOOL
from dslc.blocks.values.url import RESERVED
from dslc.program import BLOCK_FIELDS
from dslc.report.program import LITERAL, VERSION
from dslc.setting import Setting
from dslc.vocabulary import Vocabulary

Schema = dict[str, Any]

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_NAME = r"^(?!\.{1,2}$)[A-Za-z0-9_.-]{1,64}$"
_LARGEST_NUMBER = 2**63 - 1
_DURATION = (
    r"^(?:0s|(?=[0-9])(?:[1-9][0-9]{0,8}d)?(?:(?:[1-9]|1[0-9]|2[0-3])h)?(?:(?:[1-9]|[1-5][0-9])m)?"
    r"(?:(?:[1-9]|[1-5][0-9])s)?(?:[1-9][0-9]{0,2}ms)?)$"
)
_URL_PATH = (
    rf"^(?!(?:{'|'.join(RESERVED)})(?:/|$))(?!.*//)(?!.*/\.\.?(?:/|$))(?!.*%(?![0-9A-Fa-f]{{2}}))"
    r"/[A-Za-z0-9\-._~!$&'()*+,;=:@%/]*$"
)

_PLAIN: Mapping[str, Schema] = MappingProxyType(
    {
        "string": {"type": "string"},
        "scalar": {"type": ["string", "number", "boolean"]},
        "integer": {"type": "integer", "minimum": -_LARGEST_NUMBER, "maximum": _LARGEST_NUMBER},
        "number": {"type": "number"},
        "boolean": {"type": "boolean"},
        "duration": {"type": "string", "pattern": _DURATION},
        "size": {"type": "integer", "minimum": 0, "maximum": LARGEST_SIZE},
        "url_path": {"type": "string", "pattern": _URL_PATH},
        "url": {"type": "string", "pattern": "^[Hh][Tt][Tt][Pp][Ss]?://[^#]+$"},
        "json_path": {"type": "string", "pattern": r"^\$"},
        "header_name": {"type": "string", "minLength": 1, "maxLength": 128, "pattern": f"^{TOKEN}+$"},
        "header_value": {"type": "string", "pattern": r"^[\t -~]*$"},
        "env_value": {"type": "string", "pattern": r"^[^\x00]*$"},
        "pattern": {"type": "string", "minLength": 1, "maxLength": 1000},
        "event": {"type": "string", "minLength": 1, "maxLength": 255},
        "template": {"type": "string", "pattern": r"\{(?:body|json:[^{}]+)\}"},
        "network": {"type": "string", "pattern": r"^[0-9A-Fa-f.:]{2,45}(?:/[0-9]{1,3})?$"},
        "reference": {"$ref": "#/$defs/name"},
    }
)
_UNITS = {"duration": "A duration in d, h, m, s and ms.", "size": "In bytes."}


def schema(vocabulary: Vocabulary) -> Schema:
    """Return the schema of all programs that compile with this vocabulary."""
    fields = {field: _blocks(kind) for field, kind in BLOCK_FIELDS.items()}
    return {
        "$schema": _DRAFT,
        "title": "Compiled .symbiont program",
        "description": "The output of `dslc compile`. A secret that is written in a file is replaced by `[literal]`.",
        "type": "object",
        "properties": {"version": {"const": VERSION}, **fields},
        "required": ["version", *fields],
        "additionalProperties": False,
        "$defs": {
            **{kind: _kind(kind, vocabulary) for kind in BLOCK_FIELDS.values()},
            "name": {"description": f"{NAME_RULE}, and not `.` or `..`.", "type": "string", "pattern": _NAME},
            "secret": _secret(vocabulary),
        },
    }


def _blocks(kind: str) -> Schema:
    return {
        "description": f"All blocks of the kind `{kind}`, by name.",
        "type": "object",
        "propertyNames": {"$ref": "#/$defs/name"},
        "additionalProperties": {"$ref": f"#/$defs/{kind}"},
    }


def _kind(kind: str, vocabulary: Vocabulary) -> Schema:
    name = {"$ref": "#/$defs/name", "description": str(TABLE[kind].model_fields["name"].description)}
    settings = tuple(vocabulary.kinds[kind].values())
    about = inspect.getdoc(TABLE[kind]) or ""
    return {
        "description": " ".join(about.partition("\n\n")[0].split()),
        **_group_schema(settings, vocabulary, {"name": name}),
        **(_RULES[kind](vocabulary) if kind in _RULES else {}),
    }


def _secrets(vocabulary: Vocabulary) -> Schema:
    """Schema of the rule that a webhook has a secret, unless it is unverified or its sender's keys are fetched."""
    rows = vocabulary.rows("provider").values()
    keyless: list[Schema] = [_UNVERIFIED]
    for row in rows:
        provider: Schema = {"name": {"const": row.name}}
        if row.keyless_by is not None:
            provider["options"] = {"required": [row.keyless_by]}
        if row.keyless or row.keyless_by is not None:
            keyless.append({"properties": {"provider": {"properties": provider}}})
    return {
        "if": {"anyOf": keyless} if len(keyless) > 1 else _UNVERIFIED,
        "then": {"properties": {"secret": {"maxItems": 0}}},
        "else": {"properties": {"secret": {"minItems": 1}}},
    }


_UNVERIFIED = {"properties": {"insecure_allow_unverified": {"const": True}}}
_RULES: Mapping[str, Callable[[Vocabulary], Schema]] = MappingProxyType({"webhook": _secrets})
"""Schemas of the rules of a kind (`dslc.check.rules`) that its settings do not express."""


def _group_schema(settings: Sequence[Setting], vocabulary: Vocabulary, more: Schema | None = None) -> Schema:
    """Schema of a model's block or group: all properties are present, and unset ones are null."""
    properties = {setting.name: _setting_schema(setting, vocabulary, _group_schema) for setting in settings}
    for setting in settings:
        if _may_be_null(setting):
            properties[setting.name] = _or_null(properties[setting.name])
        elif not setting.required and setting.type not in {"group", "map"}:
            properties[setting.name]["default"] = _printed_default(setting)
    return _object({**(more or {}), **properties}, required=True) | _relations(settings, _given_schema)


def _row_schema(settings: Sequence[Setting], vocabulary: Vocabulary) -> Schema:
    """Schema of a row's options, or of a group of them: only properties that were written are present."""
    properties = {setting.name: _setting_schema(setting, vocabulary, _row_schema) for setting in settings}
    found = _object(properties, required=False) | _relations(settings, _present_schema)
    required = [setting.name for setting in settings if setting.required]
    return found | ({"required": required} if required else {})


_Body = Callable[[Sequence[Setting], Vocabulary], Schema]


def _object(properties: Schema, *, required: bool) -> Schema:
    always = {"required": list(properties)} if required and properties else {}
    return {"type": "object", "properties": properties, **always, "additionalProperties": False}


def _may_be_null(setting: Setting) -> bool:
    return not setting.required and setting.default is None and setting.type not in {"group", "map"}


def _or_null(value: Schema) -> Schema:
    """Schema that also allows null; the description is moved to the outer schema."""
    inner = {key: item for key, item in value.items() if key != "description"}
    described = {key: item for key, item in value.items() if key == "description"}
    if inner == {"not": {}}:
        return {**described, "type": "null"}
    return {**described, "anyOf": [inner, {"type": "null"}]}


def _printed_default(setting: Setting) -> Any:
    """Default as `dslc compile` prints it."""
    if setting.type == "size" and isinstance(setting.default, str):
        return read_size(setting.default)
    return {"name": setting.default, "options": {}} if setting.type == "variant" else setting.default


def _setting_schema(setting: Setting, vocabulary: Vocabulary, body: _Body) -> Schema:
    parts = [setting.doc, _UNITS.get(setting.type, "")]
    if setting.type == "duration":
        parts += [f"At least {setting.minimum}." if setting.minimum is not None else ""]
        parts += [f"At most {setting.maximum}." if setting.maximum is not None else ""]
    text = " ".join(filter(None, parts))
    return ({"description": text} if text else {}) | _value(setting, vocabulary, body)


def _value(setting: Setting, vocabulary: Vocabulary, body: _Body) -> Schema:
    if not setting.many:
        return _one(setting, vocabulary, body)
    found: Schema = {"type": "array", "items": _one(setting, vocabulary, body)}
    # A list that was not given is printed empty; the bounds apply only to a given list.
    if setting.min_length is not None and setting.min_length > 0:
        bounds = {"minItems": setting.min_length}
        found |= bounds if body is _row_schema or setting.required else {"anyOf": [bounds, {"maxItems": 0}]}
    return found | ({"maxItems": setting.max_length} if setting.max_length is not None else {})


def _one(setting: Setting, vocabulary: Vocabulary, body: _Body) -> Schema:
    if setting.type == "group":
        found = body(setting.settings, vocabulary)
        return _with_name(found) if setting.named else found
    if setting.type == "map":
        pattern = f"^{TOKEN}+$" if setting.keys == "header_name" else setting.form and f"^(?:{setting.form})$"
        names = {} if pattern is None else {"propertyNames": {"pattern": pattern}}
        return {"type": "object", **names, "additionalProperties": _one(setting.item(""), vocabulary, body)}
    if setting.type == "variant":
        return _variant(setting, vocabulary)
    if setting.type == "word":
        return {"enum": list(setting.choices or ())}
    if setting.type == "name":
        rows = vocabulary.rows(setting.family or "")
        return {"enum": list(rows)} if rows else {"$ref": "#/$defs/name"}
    if setting.type == "tool":
        # A pattern, or a tool of a server.
        other = {"type": "string", "pattern": rf"^(?=.*[.*]){TOOL}$"}
        return {"anyOf": [{"enum": list(vocabulary.rows(setting.family or ""))}, other]}
    if setting.type == "secret":
        return {"$ref": "#/$defs/secret"}
    return {**_PLAIN[setting.type], **_bounds(setting)}


def _with_name(group: Schema) -> Schema:
    """Schema of a group with a name."""
    name = {"$ref": "#/$defs/name"}
    return {
        **group,
        "properties": {"name": name, **group["properties"]},
        "required": ["name", *group.get("required", ())],
    }


def _bounds(setting: Setting) -> Schema:
    found: Schema = {}
    if setting.type in {"string", "scalar"} and not setting.many:
        lengths = {"minLength": setting.min_length, "maxLength": setting.max_length}
        found |= {key: length for key, length in lengths.items() if length is not None}
    for key, bound in (("minimum", setting.minimum), ("maximum", setting.maximum)):
        if bound is not None and setting.type != "duration":
            found[key] = read_size(bound) if isinstance(bound, str) else bound
    return found


def _variant(setting: Setting, vocabulary: Vocabulary) -> Schema:
    """Schema of a variant: one of the rows, each with its own options."""
    rows = vocabulary.rows(setting.family or "")
    branches = [
        _choice({"const": name}, _row_schema(row.options, vocabulary)) | ({"description": row.doc} if row.doc else {})
        for name, row in rows.items()
    ]
    nothing = _row_schema((), vocabulary)
    if setting.default is not None and setting.default not in rows:
        branches.append(_choice({"const": setting.default}, nothing))
    if setting.block is not None:
        block = {"allOf": [{"$ref": "#/$defs/name"}, {"not": {"enum": list(rows)}}]}
        branches.append(_choice(block, nothing) | {"description": f"The name of a block `{setting.block}`."})
    return {"oneOf": branches} if branches else {"not": {}}


def _choice(name: Schema, options: Schema) -> Schema:
    return _object({"name": name, "options": options}, required=True)


def _secret(vocabulary: Vocabulary) -> Schema:
    backends = [name.replace(".", r"\.") for name in vocabulary.rows("secret")]
    reference = rf"^secret://(?:{'|'.join(backends)})/(?=.*\S)[^\u0000-\u001f\u007f]+$"
    literal = {"const": LITERAL, "description": "A secret that is written in the file and not shown."}
    kept = {"type": "string", "pattern": reference, "description": "A reference to the secret."}
    return {"anyOf": [literal, kept]} if backends else literal


def _given_schema(name: str, settings: Mapping[str, Setting]) -> Schema | None:
    """Schema that holds if a setting of a model was given; None if that cannot be distinguished from its default."""
    if settings[name].many and settings[name].default == [] and settings[name].min_length != 0:
        return {"properties": {name: {"minItems": 1}}}
    if settings[name].type == "map":
        return {"properties": {name: {"minProperties": 1}}}
    return {"properties": {name: {"not": {"type": "null"}}}} if _may_be_null(settings[name]) else None


def _present_schema(name: str, _: Mapping[str, Setting]) -> Schema | None:
    """Schema that holds if an option was given."""
    return {"required": [name]}


def _relations(settings: Sequence[Setting], was_given: Callable[[str, Mapping[str, Setting]], Schema | None]) -> Schema:
    """Schema of the relations between settings, as far as the output shows which ones were given."""
    known = {setting.name: setting for setting in settings}
    demands: list[Schema] = []
    for setting in settings:
        here = was_given(setting.name, known)
        for other in setting.needs:
            there = was_given(other, known)
            if here is not None and there is not None:
                demands.append({"if": here, "then": there})
        some = [was_given(name, known) for name in setting.needs_one]
        if here is not None and some and all(each is not None for each in some):
            demands.append({"if": here, "then": {"anyOf": some}})
        for other in setting.excludes:
            there = was_given(other, known)
            if here is not None and there is not None:
                demands.append({"not": {"allOf": [here, there]}})
        any_of = [was_given(name, known) for name in setting.one_of]
        if any_of and all(each is not None for each in any_of):
            demands.append({"anyOf": any_of})
    return {"allOf": demands} if demands else {}

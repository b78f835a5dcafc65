"""Example values, for hints and documentation."""

from __future__ import annotations

from dslc.blocks import Setting

_BY_TYPE = {
    "string": '"…"',
    "scalar": '"opened"',
    "integer": "10",
    "number": "0.5",
    "boolean": "true",
    "duration": "90d",
    "size": "256KB",
    "url_path": '"/hooks/github"',
    "url": '"https://example.org/hooks"',
    "json_path": '"$.action"',
    "secret": '"secret://env/WEBHOOK_SECRET"',
    "name": "a-name",
    "reference": "a-name",
}


def example(setting: Setting) -> str:
    """A line that gives `setting` a value it takes."""
    if setting.type == "group":
        inner = " ".join(example(inner) for inner in setting.settings if inner.required or inner.default is not None)
        return f"{setting.name} {{ {inner} }}" if inner else f"{setting.name} {{ … }}"
    value = _default(setting) or (setting.choices[0] if setting.choices else _BY_TYPE.get(setting.type, "a-name"))
    return f"{setting.name} [{value}]" if setting.many and not setting.single else f"{setting.name} {value}"


def _default(setting: Setting) -> str | None:
    match setting.default:
        case bool(truth):
            return "true" if truth else "false"
        case int() | float():
            return str(setting.default)
        case str(text) if text:
            return text if setting.type in {"word", "variant", "duration", "size"} else f'"{text}"'
    return None

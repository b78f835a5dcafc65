"""Checks the blocks of one section, each on its own."""

from __future__ import annotations

from typing import NamedTuple

from lark import Token

from dslc.blocks.values.invalid import Invalid
from dslc.blocks.values.names import possible_names, valid_name
from dslc.check.body import read_body
from dslc.check.rules import check_rules
from dslc.diagnostics.collector import DiagnosticCollector
from dslc.diagnostics.diagnostic import Diagnostic
from dslc.diagnostics.suggestion import nearest
from dslc.diagnostics.unknown_kind import unknown_kind
from dslc.parse import ParsedSection
from dslc.syntax.block_heads import FOREIGN_KINDS
from dslc.syntax.quoting import write_name
from dslc.syntax.tree import BlockNode, Body, ForeignNode, MissingToken
from dslc.value_reading.check_state import CheckedBlock, CheckedHead, CheckState, CostLimit, ModelReply, Use
from dslc.value_reading.string_literals import text_of
from dslc.vocabulary import Settings, Vocabulary

_NAME_KEYS = {"name", "id"}  # keys for a block's name in other languages


class CheckedSection(NamedTuple):
    """One section after its own checks; positions are relative to it.

    `foreign`: blocks of the wider language that declare a name of a kind of this one, as (kind, name). `mentions` and
    `nameless`: as in a `ParsedSection`, extended by what the checks did not understand.
    """

    parsed: ParsedSection
    diagnostics: tuple[Diagnostic, ...]
    blocks: tuple[CheckedBlock, ...]
    uses: tuple[Use, ...]
    replies: tuple[ModelReply, ...]
    cost_limits: tuple[CostLimit, ...]
    foreign: tuple[tuple[str, str], ...]
    mentions: frozenset[str]
    nameless: frozenset[str]


def check_section(parsed: ParsedSection, vocabulary: Vocabulary) -> CheckedSection:
    """Check each block of a section on its own."""
    collector = DiagnosticCollector(parsed.text)
    collector.found += parsed.diagnostics
    context = CheckState(collector, vocabulary, parsed.damaged)
    context.mentions |= parsed.mentions
    context.nameless |= parsed.nameless
    blocks, foreign = [], []
    for node in parsed.blocks:
        if isinstance(node, ForeignNode):
            foreign += _foreign(context, node, readable=parsed.readable)
        else:
            block = _block(context, node)
            blocks += [] if block is None else [block]
    return CheckedSection(
        parsed,
        tuple(collector.found),
        tuple(blocks),
        tuple(context.uses),
        tuple(context.replies),
        tuple(context.cost_limits),
        tuple(foreign),
        frozenset(context.mentions),
        frozenset(context.nameless),
    )


def _foreign(context: CheckState, node: ForeignNode, *, readable: bool) -> list[tuple[str, str]]:
    """Report a block of the wider language as not compiled, unless it has an error. Returns the names it declares."""
    if readable and (node.kind in FOREIGN_KINDS or node.kind in context.vocabulary.kinds):
        hint = "the other blocks are compiled"
        context.collector.add("N207", f"`{node.kind}` is not compiled here", node, hint=hint)
    context.mentions |= possible_names(context.collector.text, node.end_pos)  # its references are unknown
    if node.name is None:
        return []
    return [(str(node.kind), node.name.strip('"'))]


def _block(context: CheckState, node: BlockNode) -> CheckedBlock | None:
    """Check one block. Returns None if its name or kind cannot be determined."""
    kind, known = str(node.kind), True
    if kind not in context.vocabulary.kinds:
        near, known = unknown_kind(context.collector, node.kind, context.vocabulary, named=node.name is not None), False
        if near is None:
            context.mention(node.kind if node.name is None else node.name, node.body)
            return None
        kind = near  # checked as the kind that was probably meant
    name = _name(context, node)
    head = CheckedHead(node, f"{kind} {name}" if name is not None else kind)
    body, settings = node.body, context.vocabulary.kinds[kind]
    if node.name is None:  # the name may be in the body: the same mistake
        body = _without_name(body, settings)
    given = read_body(context, tuple(settings.values()), body, head)
    check_rules(context, kind, given, head)
    if name is None:
        context.nameless.add(kind)
        return None
    given.good = given.good and known
    return CheckedBlock(kind, name, node, given)


def _name_inside(body: Body, settings: Settings) -> str | None:
    """The name in the body of a block whose head has none: `memory { name m … }`, `memory { m { … } }`. Else None."""
    for entry in body.entries:
        if entry.key in _NAME_KEYS and entry.key not in settings and isinstance(entry.value, Token):
            return entry.value if entry.value.type in {"WORD", "STRING"} else None
    return str(body.entries[0].key) if _is_wrapped(body, settings) else None


def _is_wrapped(body: Body, settings: Settings) -> bool:
    """True if a body contains only one group that is not a setting."""
    only = body.entries[0] if len(body.entries) == 1 else None
    return only is not None and only.value is None and only.key not in settings and nearest(only.key, settings) is None


def _without_name(body: Body, settings: Settings) -> Body:
    """The body of a block whose head has no name, without the entry that names the block."""
    if _is_wrapped(body, settings):
        return body.entries[0].body or body
    entries = tuple(entry for entry in body.entries if entry.key in settings or entry.key not in _NAME_KEYS)
    return body._replace(entries=entries)


def _name(context: CheckState, node: BlockNode) -> str | None:
    """Read the name of a block; None after reporting an error."""
    collector = context.collector
    if isinstance(node.name, MissingToken):
        return None
    if node.name is None:
        shown = _name_inside(node.body, context.vocabulary.kinds.get(node.kind, {})) or "a-name"
        hint = f"such as `{node.kind} {shown[:80]} {{ … }}`"
        collector.add("N206", f"this `{node.kind}` has no name", node.kind, hint=hint)
        return None
    text = text_of(node.name, collector)
    if text is None:
        return None
    try:
        valid_name(text)
    except Invalid as invalid:
        collector.add("N206", str(invalid), node.name, hint=invalid.hint)
        return None
    if str(node.kind) == "mcp" and "." in text:
        message = "the name of an `mcp` block has no dot: it is followed by one in the name of a tool"
        collector.add("N206", message, node.name, hint=f"such as `mcp {write_name(text.replace('.', '-'))} {{ … }}`")
        return None
    if text in context.vocabulary.services.get(str(node.kind), {}):
        message = f"`{text}` is a service: a `{node.kind}` needs another name"
        collector.add("N206", message, node.name, hint=f"such as `{node.kind} my-{text[:60]} {{ … }}`")
        return None
    return text

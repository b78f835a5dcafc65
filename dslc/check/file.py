"""The blocks of one file, each checked for itself."""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic import ValidationError

from dslc.blocks import TABLE, Block, Invalid
from dslc.blocks.values import valid_name
from dslc.check.body import read_body
from dslc.check.context import Checked, Context, Given, Head, Use
from dslc.check.rules import check_rules
from dslc.findings import Findings
from dslc.nearest import nearest, suggestion
from dslc.strings import text_of
from dslc.syntax import File
from dslc.tree import BlockNode
from dslc.vocabulary import Vocabulary

_ELSEWHERE = {"metadata", "policy", "schedule", "channel", "type", "function"}
"""Blocks of the wider Symbiont language."""


@dataclass(frozen=True)
class CheckedFile:
    """One file after its own checks.

    `perhaps`: names declared by blocks of an unknown kind: of which kind they were meant to be, nobody knows.
    """

    file: File
    findings: Findings
    blocks: tuple[Checked, ...] = ()
    uses: tuple[Use, ...] = ()
    perhaps: frozenset[str] = field(default_factory=frozenset)


def check_file(file: File, vocabulary: Vocabulary) -> CheckedFile:
    """Check every block of a file by itself."""
    findings = Findings(file.source)
    findings.found += file.diagnostics
    context, blocks, perhaps = Context(findings, vocabulary), [], set()
    for node in file.blocks:
        if node.kind not in vocabulary.kinds:
            _other_kind(findings, node, vocabulary)
            perhaps |= {str(node.name).strip('"')} if node.name is not None else set()
            continue
        block = _block(context, node, _name(findings, node))
        if block is not None:
            blocks.append(block)
    return CheckedFile(file, findings, tuple(blocks), tuple(context.uses), frozenset(perhaps))


def _other_kind(findings: Findings, node: BlockNode, vocabulary: Vocabulary) -> None:
    if node.kind in _ELSEWHERE:
        hint = "the blocks beside it are compiled"
        findings.add("N207", f"`{node.kind}` is not compiled here", node, hint=hint)
        return
    near = None if findings.crowded else nearest(node.kind, vocabulary.kinds)
    start, end = node.kind.start_pos or 0, node.kind.end_pos or 0
    fix = findings.fix(f"write `{near}`", (start, end, near)) if near else None
    hint = f"did you mean `{near}`?" if near else suggestion("", vocabulary.kinds, what="blocks")
    findings.add("N201", f"no block is called `{node.kind[:64]}`", node.kind, hint=hint, fix=fix)


def _name(findings: Findings, node: BlockNode) -> str | None:
    if node.name is None:
        hint = f"such as `{node.kind} a-name {{ … }}`"
        findings.add("N206", f"this `{node.kind}` has no name", node.kind, hint=hint)
        return None
    text = text_of(node.name, findings)
    if text is None:
        return None
    try:
        return valid_name(text)
    except Invalid as invalid:
        findings.add("N206", str(invalid), node.name, hint=invalid.hint)
        return None


def _block(context: Context, node: BlockNode, name: str | None) -> Checked | None:
    kind = str(node.kind)
    head = Head(node, f"{kind} {name}" if name is not None else kind)
    given = read_body(context, tuple(context.vocabulary.kinds[kind].values()), node.body, head)
    check_rules(context, kind, given, head)
    if name is None:
        return None
    return Checked(kind, name, node, given, context.findings, _model(context, kind, name, node, given))


def _model(context: Context, kind: str, name: str, node: BlockNode, given: Given) -> Block | None:
    if not given.good:
        return None
    try:
        return TABLE[kind].model_validate({"name": name, **given.values})
    except ValidationError as error:
        # The checks above know every bound of these models; this is for a model that demands more than its fields say.
        for problem in error.errors(include_input=False, include_url=False, include_context=False):
            entry = given.entry(str(problem["loc"][0])) if problem["loc"] else None
            context.findings.add("T401", problem["msg"], entry.key if entry else node)
    return None

"""Rules of a block kind beyond the types of its settings, checked within one block. One table row per kind."""

from __future__ import annotations

from collections.abc import Callable, Collection

from lark import Token

from dslc.blocks.checked_variant import CheckedVariant
from dslc.blocks.values.tool import matches
from dslc.catalog import CatalogEntry
from dslc.check.body import may_be_misnamed
from dslc.check.reply_room import Window, window_of_block, window_of_service
from dslc.check.signed import compressed_values, known_address, known_event, signed_filters, token_in_url
from dslc.diagnostics.diagnostic import Severity
from dslc.diagnostics.suggestion import listing
from dslc.syntax.tree import BlockNode, EntryNode, ListValue, ValueNode
from dslc.value_reading.check_state import BodyValues, CheckedHead, CheckState, CostLimit, ModelReply


def check_rules(context: CheckState, kind: str, given: BodyValues, head: CheckedHead) -> None:
    """Check the rules of the block's kind and report violations."""
    for rule in _RULES.get(kind, ()):
        rule(context, given, head)


def _weights(context: CheckState, given: BodyValues, _: CheckedHead) -> None:
    """Report weights that do not add up to 1, or are both 0. Checked only if both are within their bounds."""
    search, entry = given.values.get("search"), given.entry("search")
    if not isinstance(search, dict) or entry is None or entry.body is None:
        return
    names = ("vector_weight", "keyword_weight")
    settings = {setting.name: setting for setting in context.vocabulary.kinds["memory"]["search"].settings}
    total = sum(float(search.get(name, settings[name].default)) for name in names)
    if abs(total - 1) <= 1e-9:
        return
    last = [inner for inner in entry.body.entries if inner.key in names]
    place = last[-1].value if last else entry.key
    message = f"`vector_weight` and `keyword_weight` add up to {total:.6g} instead of 1"
    hint = "the other weight has its default" if len(last) == 1 else "such as 0.7 and 0.3"
    if total == 0:
        message = "`vector_weight` and `keyword_weight` are both 0, so nothing can be found"
        context.reject(given, "T402", message, place or entry.key, hint="such as 0.7 and 0.3")
        return
    context.collector.add("T402", message, place or entry.key, hint=hint, severity=Severity.WARNING)


def _store_settings(context: CheckState, given: BodyValues, _: CheckedHead) -> None:
    """Report `path` for a memory without files, and `retention` for a store that only appends."""
    vocabulary = context.vocabulary
    _check_unsupported(context, given, "path", vocabulary.fileless, "a `{}` is stored in the database")
    _check_unsupported(context, given, "retention", vocabulary.append_only, "items of `{}` are never deleted")


def _check_unsupported(context: CheckState, given: BodyValues, setting: str, stores: Collection[str], why: str) -> None:
    """Report `setting` if it is given with one of `stores`. `why`: message with a placeholder for the store."""
    store, entry = given.entry("store"), given.entry(setting)
    if store is None or entry is None or store.word not in stores:
        return
    label = context.collector.label(f"`{store.word}` is given here", store.key)
    message = f"{why.format(store.word)}: `{setting}` has no effect"
    context.reject(given, "T405", message, entry.key, hint="remove it", labels=[label])


def _secret(context: CheckState, given: BodyValues, head: CheckedHead) -> None:
    """Check that a webhook has a secret or explicitly has none."""
    unverified, secret = given.entry("insecure_allow_unverified"), given.entry("secret")
    collector = context.collector
    if given.values.get("insecure_allow_unverified") is True and unverified is not None:
        if secret is not None:
            message = "`insecure_allow_unverified` and `secret` exclude each other"
            context.reject(given, "T405", message, unverified.key, hint="remove one", beside=secret)
        else:
            hint = 'add a secret, such as `secret "secret://env/WEBHOOK_SECRET"`'
            collector.add("P502", "this webhook accepts unverified requests", unverified, hint=hint)
    elif _is_keyless(context, given):
        if secret is not None:
            message = "this sender's keys are fetched: `secret` is not used"
            context.reject(given, "T405", message, secret.key, hint="remove it")
    elif (
        not given.may_have("secret")
        and ("insecure_allow_unverified" in given.values or not given.may_have("insecure_allow_unverified"))
        and not may_be_misnamed(context, context.vocabulary.kinds["webhook"]["secret"], given)
    ):
        hint = 'add `secret "secret://env/WEBHOOK_SECRET"`'
        context.reject(given, "T404", f"`{head.name}` needs `secret`", head.place, hint=hint)
    elif secret is not None and given.values.get("secret") == ():
        context.reject(
            given, "T402", "`secret` is an empty list", _value(secret), hint='such as `["secret://env/WEBHOOK_SECRET"]`'
        )


def _without_effect(context: CheckState, given: BodyValues, _: CheckedHead) -> None:
    """Warn once, at the first setting, that settings for a model have no effect in an agent without one."""
    entries = [entry for name in _FOR_A_MODEL for entry in given.entries.get(name, ())]
    model = given.entry("model")
    if not entries or not given.good or (model is not None and model.word != "none"):  # an error was reported already
        return
    first, *others = sorted(entries, key=lambda entry: entry.start_pos)
    names = listing(dict.fromkeys(str(entry.key) for entry in (first, *others)))
    labels = [context.collector.label("this has no effect either", entry.key) for entry in others]
    several = any(entry.key != first.key for entry in others)
    message = f"{names} {'have' if several else 'has'} no effect: an agent without a model only records deliveries"
    hint = "add a `model`, or remove it"
    context.collector.add("R303", message, first.key, hint=hint, labels=labels)


_FOR_A_MODEL = (
    "tools", "confirm", "tool_calling", "max_steps", "thread", "context", "summarizer", "block", "main",
    "lock",
)  # fmt: skip


def _core_blocks(context: CheckState, given: BodyValues, _: CheckedHead) -> None:
    """Report a core block whose first value is longer than it may be."""
    settings = {setting.name: setting for setting in context.vocabulary.kinds["agent"]["block"].settings}
    values = given.values.get("block", ())
    blocks = {block["name"]: block for block in values} if isinstance(values, tuple) else {}
    for entry in given.entries.get("block", ()):
        block = blocks.pop(entry.word, {})
        value, limit = block.get("value", ""), block.get("char_limit", settings["char_limit"].default)
        if len(value) <= limit or entry.body is None:
            continue
        inner = {str(each.key): each for each in entry.body.entries}
        at, place = inner.get("char_limit"), inner["value"].value or entry.key
        message = f"`value` has {len(value)} characters, but `char_limit` is {limit}"
        context.reject(given, "T405", message, place, hint="shorten it, or raise `char_limit`", beside=at)


def _falls_back(context: CheckState, given: BodyValues, head: CheckedHead) -> None:
    """Report a model that falls back on itself."""
    entry = given.entry("fallback")
    name = head.place.name if isinstance(head.place, BlockNode) else None
    if name is None or entry is None or not isinstance(entry.value, ListValue):
        return
    for item in entry.value.items:
        if isinstance(item, Token) and item.strip('"') == name.strip('"'):
            context.reject(given, "T405", "`fallback` names the model itself", item, hint="remove it")


def _model_replies(context: CheckState, given: BodyValues, _: CheckedHead) -> None:
    """Report a model whose window has no room for a request."""
    window, entry = window_of_block(context.vocabulary.rows("model"), given), given.entry("reply_tokens")
    if window is not None and entry is not None:
        _check_reply(context, given, given.values.get("reply_tokens"), entry, window)


def _agent_replies(context: CheckState, given: BodyValues, _: CheckedHead) -> None:
    """Report a context that has no room for a request, in itself or in the window of the service that the agent names.
    That of a model block is compared when all files are known."""
    values, entry = given.values.get("context"), given.entry("context")
    if not isinstance(values, dict) or "reply_tokens" not in values or entry is None or entry.body is None:
        return
    entries = {str(inner.key): inner for inner in entry.body.entries}
    reply, place = values["reply_tokens"], entries["reply_tokens"]
    settings = {setting.name: setting for setting in context.vocabulary.kinds["agent"]["context"].settings}
    whole = Window(values.get("max_tokens", settings["max_tokens"].default), "max_tokens", entries.get("max_tokens"))
    model, services = given.values.get("model"), context.vocabulary.rows("model")
    if not _check_reply(context, given, reply, place, whole) or not isinstance(model, CheckedVariant):
        return
    if model.name not in services:
        context.replies.append(ModelReply(model.name, reply, _value(place)))
    elif (window := window_of_service(services, given, "model")) is not None:
        _check_reply(context, given, reply, place, window)


def _cost_limit(context: CheckState, given: BodyValues, _: CheckedHead) -> None:
    """Report a limit of costs for a model that the agent names by its service: only a block has prices. Those of model
    blocks are compared when all files are known."""
    entry, models = given.entry("limits"), [(given.values.get("model"), given.entry("model"))]
    inner = {} if entry is None or entry.body is None else {str(each.key): each for each in entry.body.entries}
    limit, summarizer = inner.get("cost_per_day"), given.entry("summarizer")
    limits = given.values.get("limits")
    if limit is None or not isinstance(limits, dict) or "cost_per_day" not in limits:
        return
    values = given.values.get("summarizer")
    if isinstance(values, dict) and summarizer is not None and summarizer.body is not None:
        chosen = next((each for each in summarizer.body.entries if each.key == "model"), None)
        models.append((values.get("model"), chosen))
    for model, named_at in models:
        if not isinstance(model, CheckedVariant) or model.name == "none":
            continue
        if model.name not in context.vocabulary.rows("model"):
            context.cost_limits.append(CostLimit(model.name, _value(limit)))
        elif named_at is not None:
            labels = [context.collector.label("this service has no prices here", named_at.key)]
            message = "`cost_per_day` needs `input_price` and `output_price`, which only a `model` block has"
            hint = "declare a `model` with the service and its prices, and name it here"
            context.reject(given, "T405", message, _value(limit), hint=hint, labels=labels)


def _shared_tools(context: CheckState, given: BodyValues, _: CheckedHead) -> None:
    """Report tools by which a run for one subject of keyed threads reads what another one stored in SQL tables."""
    thread, entry, tools = given.values.get("thread"), given.entry("thread"), given.values.get("tools")
    if (
        not isinstance(thread, CheckedVariant)
        or thread.name != "keyed"
        or entry is None
        or not isinstance(tools, tuple)
    ):
        return
    if thread.options.get("separate_memory") is False or thread.options.get("shared_data") is True:
        return
    shared = [row for row in context.vocabulary.rows("tool").values() if row.shared]
    found = [row.name for row in shared if any(_selects(str(pattern), row) for pattern in tools)]
    listed = given.entry("tools")
    if found and listed is not None:
        labels = [context.collector.label("each subject has a memory of its own here", entry.key)]
        message = f"tools on SQL tables, which all subjects share: {listing(found, most=4)}"
        hint = "leave them out, or write `shared_data true` in `thread keyed { … }`"
        context.reject(given, "T405", message, _value(listed), hint=hint, labels=labels)


def _selects(pattern: str, row: CatalogEntry) -> bool:
    return pattern == row.name or (not row.destructive and matches(pattern, row.name))


def _check_reply(context: CheckState, given: BodyValues, reply: object, entry: EntryNode, window: Window) -> bool:
    """Report a `reply_tokens` that is not smaller than the window of which it is a part. Returns False if so."""
    if not isinstance(reply, int) or reply < window.tokens:
        return True
    message, hint = window.misfit(reply)
    context.reject(given, "T405", message, _value(entry), hint=hint, beside=window.entry)
    return False


def _is_keyless(context: CheckState, given: BodyValues) -> bool:
    """True if the provider with the given options verifies with keys that it fetches."""
    entry = given.entry("provider")
    row = None if entry is None else context.vocabulary.rows("provider").get(entry.word or "")
    if entry is None or row is None:
        return False
    options = () if entry.body is None else entry.body.entries
    return row.keyless or any(option.key == row.keyless_by for option in options)


def _value(entry: EntryNode) -> ValueNode:
    return entry.value if entry.value is not None else entry.key


def _absent_values(context: CheckState, given: BodyValues, _: CheckedHead) -> None:
    """Report comparisons with a value that must not exist (`exists false`)."""
    waiting = list(given.entries.get("filter", ()))
    while waiting:
        inner = waiting.pop(0).body
        entries = inner.entries if inner is not None else ()
        waiting += [entry for entry in entries if entry.key in {"any", "filter", "not"}]
        absent = next((entry for entry in entries if entry.key == "exists" and entry.value == "false"), None)
        other = next((entry for entry in entries if entry.key in _COMPARISONS), None)
        if absent is not None and other is not None:
            message = f"`exists false` and `{other.key}` exclude each other"
            context.reject(given, "T405", message, absent.key, hint="remove one", beside=other)


_COMPARISONS = {"equals", "contains", "one_of", "matches"}
_RULES: dict[str, tuple[Callable[[CheckState, BodyValues, CheckedHead], None], ...]] = {
    "memory": (_weights, _store_settings),
    "agent": (_core_blocks, _agent_replies, _cost_limit, _shared_tools, _without_effect),
    "model": (_falls_back, _model_replies),
    "webhook": (_secret, _absent_values, signed_filters, known_address, known_event, token_in_url, compressed_values),
}

"""Marks that models and their chat templates put around reasoning, tool calls and the ends of replies."""

from __future__ import annotations

import re
from typing import Final

REASONING: Final = re.compile(
    r"<(?P<tag>think|thinking|thought|thoughts|reasoning|reflection|scratchpad|seed:think)>"
    r"|(?P<upper>\[THINK\])"
    r"|(?P<harmony>(?:<\|start\|>assistant)?<\|channel\|>(?:analysis|commentary)<\|message\|>)",
    re.IGNORECASE,
)
"""Begin of a model's reasoning."""

REASONING_END: Final = re.compile(
    r"</(?:think|thinking|thought|thoughts|reasoning|reflection|scratchpad|seed:think)>"
    r"|\[/THINK\]",
    re.IGNORECASE,
)
"""End of a model's reasoning, also where the begin is in the prompt."""

_HARMONY_END: Final = re.compile(r"<\|end\|>|(?=<\|start\|>)")

CALL_HEAD: Final = re.compile(
    r"<function[= ](?:name=)?[\"']?(?P<function>[\w.-]+)[\"']?>"
    r"|<invoke name=[\"'](?P<invoke>[\w.-]+)[\"']>"
    r"|<tool_call>\s*+(?P<glm>[\w.-]++)\s*+(?=<arg_key>|</tool_call>)"
    r"|\[TOOL_CALLS\]\s*+(?P<mistral>[\w.-]++)(?:\[CALL_ID\]\w++)?(?:\[ARGS\])?\s*+(?=\{)"
    r"|<｜tool▁sep｜>(?P<deepseek>[\w.-]++)\s*+(?:```json)?\s*+(?=\{)"
    r"|(?:<\|start\|>assistant)?<\|channel\|>commentary to=(?:functions\.)?(?P<harmony_call>[\w-]++)"
    r"\s*+(?:<\|constrain\|>)?(?:json)?\s*+<\|message\|>(?=\s*\{)",
)
"""Begin of a tool call in a form of its own; the group that matched is the tool's name, and arguments follow."""

CALL_END: Final = re.compile(r"</function>|</invoke>|</tool_call>")
PARAMETER: Final = re.compile(
    r"\s*+(?:<parameter[= ](?:name=)?[\"']?(?P<key>[\w.-]+)[\"']?>"
    r"|<arg_key>(?P<glm_key>[^<]++)</arg_key>\s*+<arg_value>)"
)
PARAMETER_END: Final = re.compile(r"</parameter>|</arg_value>")

CALL_TAG: Final = re.compile(
    r"</?tool_calls?>|<\|/?tool_calls?\|>|</?function_calls?>|</?function>|<\|python_tag\|>|\[/?TOOL_CALLS\]"
    r"|<｜tool▁(?:calls?|outputs?)▁(?:begin|end)｜>(?:function)?|<\|tool_calls?_(?:section_)?(?:begin|end)\|>|</invoke>"
)
"""A mark around tool calls whose content is JSON."""

TOKEN: Final = re.compile(
    r"<\|(?:im_end|im_start|eot_id|eom_id|end|return|call|endoftext|end_of_text|begin_of_text)\|>(?:assistant\n)?"
    r"|(?:<\|start\|>assistant)?<\|channel\|>final(?:[ ]?<\|constrain\|>\w+)?<\|message\|>"
    r"|<\|start_header_id\|>assistant<\|end_header_id\|>|<\|start\|>assistant|<\|begin_of_solution\|>"
    r"|<\|end_of_solution\|>|<end_of_turn>|<｜end▁of▁sentence｜>|</s>(?=\s*\Z)|\A\s*<s>|</?answer>"
)
"""A token of a chat template, which is no part of the reply."""

FENCE_BEFORE: Final = re.compile(r"(?:(?:```+|~~~+)[ \t]*[\w+-]*|(?:\A|(?<=\n))json:?|`)\s*\Z", re.IGNORECASE)
FENCE_AFTER: Final = re.compile(r"\A\s*(?:```+|~~~+|`)")


def end_of_reasoning(begin: re.Match[str]) -> re.Pattern[str]:
    """Return the pattern that ends a reasoning, which begins with a match of `REASONING`."""
    return _HARMONY_END if begin["harmony"] else REASONING_END

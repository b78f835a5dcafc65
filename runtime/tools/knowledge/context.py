"""The tool that builds a context for the prompts of other programs, from what an agent knows."""

from __future__ import annotations

from runtime.errors import SymbiontError
from runtime.tools.agent.access import named_agent
from runtime.tools.agent.types import AgentOrMain
from runtime.tools.context import Context, PromptRequest
from runtime.tools.conversations.overview import own_thread, threads_of
from runtime.tools.failure import wrong
from runtime.tools.knowledge.types import AgentPrompt, PromptMessage, PromptPartCost, Subject, ThreadId, Tokens, WhatFor
from runtime.tools.tool import tool


@tool("read", example={"agent": "assistant", "query": "where does Ada live", "tokens": 4000})
async def agent_context(
    context: Context,
    query: WhatFor = None,
    thread: ThreadId = None,
    tokens: Tokens = 4000,
    agent: AgentOrMain = None,
    subject: Subject = None,
) -> AgentPrompt:
    """Build a context for a prompt from what an agent knows, without a model.

    It has the blocks, the preferences, the summary and the newest messages of a conversation, and what archival memory
    and earlier conversations know about `query`. Nothing is stored.
    """
    if thread is not None and subject is not None:
        raise wrong("subject", "the conversation has its own subject", hint="leave out `thread` or `subject`")
    name = named_agent(context, agent).name
    user_id = context.caller.user_id
    if context.build_prompt is None:
        raise SymbiontError("agents are not available here")
    if thread is None:
        found = await threads_of(context).find(user_id, name, subject)
    else:
        found = await own_thread(context, thread, name, None)
    built = await context.build_prompt(context, PromptRequest(name, user_id, found, subject, query, tokens))
    return AgentPrompt(
        agent=name,
        conversation_id=None if found is None else found.id,
        subject=subject if found is None else found.subject,
        messages=[PromptMessage(role=role, content=text) for role, text in built.messages],
        text="\n\n".join(text if role == "system" else f"{role}: {text}" for role, text in built.messages),
        tokens=built.tokens,
        parts=[PromptPartCost(**part._asdict()) for part in built.parts],
        notes=list(built.notes),
    )

"""A person sees the whole statement of a call that waits, and what is denied does not run."""

from __future__ import annotations

import json
from pathlib import Path

from runtime.database.schema import OWNER
from runtime.threads.run import AWAITING
from tests.runtime.agents.approvals.waiting import approve, deny, parked
from tests.runtime.agents.loop.acting import acting, program
from tests.runtime.agents.scripted import ScriptedModel, says
from tests.runtime.tables.sqlite.opened import FREE

TOOLS = 'tools ["task_*" agent_memory_sql] confirm ["agent_memory_*"]'
INSERT = {"query": "INSERT INTO t VALUES (?, NULL)", "params": ["it's\n; DROP TABLE t"]}
DROP = {"query": "DROP TABLE t"}
TASK = {"task_id": "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60"}


async def test_statements_wait_as_the_model_wrote_them_and_a_pattern_gives_no_tool_that_deletes(tmp_path: Path) -> None:
    both = says(agent_memory_sql=INSERT), says(agent_memory_sql=DROP)
    with ScriptedModel(*both, says(task_delete=TASK), says("Done.")) as model:
        async with acting(tmp_path, program(model, TOOLS)) as agent:
            assert agent.app.state.sql is not None
            await agent.app.state.sql.run(OWNER, "CREATE TABLE t (a TEXT, b TEXT)", (), FREE)
            run = await agent.send("Keep it.")
            for given, decide in ((INSERT, approve), (DROP, deny)):
                [waits] = await parked(agent, run)
                assert (waits.tool, json.loads(waits.arguments)) == ("agent_memory_sql", given)
                await decide(agent, waits)
                await agent.until(run, lambda row: row.state != AWAITING)
            await agent.until(run, lambda row: row.state == "done")
            assert [each[:2] for each in await agent.outputs()] == [
                ("agent_memory_sql", "ok"),
                ("agent_memory_sql", "error"),
                ("task_delete", "error"),
            ]
            kept = await agent.app.state.sql.run(OWNER, "SELECT a, b FROM t", (), FREE)
            assert kept.rows == [["it's\n; DROP TABLE t", None]]

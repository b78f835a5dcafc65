"""The page of budgets: its program and its commands run, and it names every setting and option."""

from __future__ import annotations

import re
from pathlib import Path

from dslc.blocks.agent import AgentLimits
from runtime.cli.agent.usage import usage
from runtime.cli.user import user
from runtime.models.budgets.limits import LIMITS
from tests.docs.shell import typed
from tests.runtime.agents.scripted import ScriptedModel, says
from tests.runtime.daemon.running import running, write_program

PAGE = (Path(__file__).parents[3] / "docs" / "budgets.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ (symbi .*)$", PAGE, re.MULTILINE)


def test_every_example_on_the_page_runs(tmp_path: Path) -> None:
    (program,) = re.findall(r"^```symbiont\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    with ScriptedModel(says("Tea.")) as model:
        service = f'service openai {{ url "{model.url}" model "m" }}'
        write_program(tmp_path, re.sub(r"service openai \{.*?\}", service, program, flags=re.DOTALL))
        with running(tmp_path, "program"):
            assert typed('symbi chat -m "What do I like?"', tmp_path).returncode == 0
            for command in COMMANDS:
                done = typed(command, tmp_path)
                assert done.returncode == 0, (command, done.stdout, done.stderr)
            shown = typed("symbi agent usage", tmp_path).stdout
    assert re.search(r"helper +1 ", shown), shown
    assert re.search(r"agent helper +cost per day +\$2.5000 ", shown), shown


def test_every_setting_and_option_is_on_the_page() -> None:
    for name in AgentLimits.model_fields:
        assert f"`{name}`" in PAGE
    limits = [each for each in user.commands["set"].params if each.name in LIMITS]
    options = {option for each in (*usage.params, *limits) for option in each.opts if option.startswith("--")}
    for option in options - {"--root"}:
        assert option in PAGE, option

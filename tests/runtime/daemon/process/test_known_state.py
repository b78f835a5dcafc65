"""What readiness knows is in `/readyz`, the metrics and the log too; what is lost or installed meanwhile is noticed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tests.runtime.daemon.running import BIN, Daemon, running, until, write_program

PROGRAM = """\
agent helper { instruction "Remember." }
memory notes {}
"""


def checks(daemon: Daemon) -> dict[str, dict[str, Any]]:
    found = json.loads(daemon.symbi("readiness", "--json").stdout)["checks"]
    return {row["check"]: row for row in found}


def available(daemon: Daemon) -> dict[str, float]:
    lines = daemon.request("GET", "/metrics", to="admin").body.decode().splitlines()
    rows = [line for line in lines if line.startswith("symbiont_model_available{")]
    return {row.partition('model="')[2].partition('"')[0]: float(row.rpartition(" ")[2]) for row in rows}


def write(daemon: Daemon, text: str) -> int:
    return daemon.symbi("memory", "write", "helper", text).returncode


def red(daemon: Daemon, check: str) -> str:
    """Return the warning of `/readyz` that begins with the name of a check, when it is there."""

    def found() -> str | None:
        warnings = daemon.readyz().json()["warnings"]
        return next((each for each in warnings if each.startswith(f"{check}: ")), None)

    return str(until(found, 60, f"the warning of {check}"))


def test_a_memory_that_is_red_is_a_warning_of_readyz_and_in_the_log(tmp_path: Path) -> None:
    write_program(tmp_path, PROGRAM)
    with running(tmp_path, "program") as daemon:
        assert write(daemon, "kept") == 0
        shutil.rmtree(tmp_path / "data/agents")
        (tmp_path / "data/agents").write_text("a file in place of the folder")
        said = red(daemon, "memory notes")
        assert daemon.readyz().status == 200
        assert checks(daemon)["memory notes"]["status"] == "RED"
        assert checks(daemon)["memory notes"]["text"] in said
        daemon.until_logged('"event": "not_ready"')


def test_an_index_that_is_gone_is_rebuilt_and_a_memory_without_its_folder_is_red_until_a_person_decides(
    tmp_path: Path,
) -> None:
    write_program(tmp_path, PROGRAM)
    folder = tmp_path / "data/agents"
    with running(tmp_path, "program") as daemon:
        assert write(daemon, "kept") == 0
    shutil.rmtree(tmp_path / ".symbi/index")
    with running(tmp_path, "program") as daemon:
        daemon.until_logged('"event": "index_built"')
        until(lambda: "1 entry" in checks(daemon)["index of notes"]["text"])
    folder.rename(tmp_path / "away")
    with running(tmp_path, "program") as daemon:
        assert checks(daemon)["memory notes"]["status"] == "RED"
        assert "had items and is gone" in checks(daemon)["memory notes"]["text"]
        assert write(daemon, "lost") == 1
        assert not folder.exists()
        (tmp_path / "away").rename(folder)
        assert write(daemon, "again") == 0
        assert checks(daemon)["memory notes"]["status"] == "GREEN"
        items = json.loads(daemon.symbi("memory", "list", "--agent", "helper", "--json").stdout)["items"]
        assert {item["text"] for item in items} == {"kept", "again"}
        # Also while it runs; an empty folder is a decision.
        folder.rename(tmp_path / "away")
        assert write(daemon, "lost") == 1
        folder.mkdir()
        assert write(daemon, "new") == 0


def test_a_folder_that_is_gone_is_noticed_in_a_root_that_was_restored_elsewhere(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    write_program(before, PROGRAM)
    with running(before, "program") as daemon:
        assert write(daemon, "kept") == 0
    shutil.copytree(before, after)
    shutil.rmtree(after / "data")
    with running(after, "program", "--root", str(after)) as daemon:
        assert checks(daemon)["memory notes"]["status"] == "RED"


def test_a_model_that_readiness_cannot_use_has_a_series_of_0(tmp_path: Path) -> None:
    models = """\
model missing { service local { package "no_such_model" } }
model away { service openai { url "http://127.0.0.1:9/v1" model "m" } }
agent one { model missing }
agent two { model away }
"""
    write_program(tmp_path, models)
    with running(tmp_path, "program", SYMBIONT_METRICS_PUBLIC="true") as daemon:
        for name in ("missing", "away"):
            assert checks(daemon)[f"model {name}"]["status"] == "RED"
        until(lambda: available(daemon).items() >= {("missing", 0.0), ("away", 0.0)})


def test_a_package_that_is_installed_meanwhile_is_noticed(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    write_program(tmp_path, 'model late { service local { package "late_model" } }\nagent a { model late }\n')
    with running(tmp_path, "program", command=[BIN / "symbi"], PYTHONPATH=str(packages)) as daemon:
        before = checks(daemon)["model late"]["text"]
        assert "late_model" in before
        (packages / "late_model").mkdir()
        (packages / "late_model/__init__.py").write_text("")
        (packages / "late_model/m.gguf").write_bytes(b"not a model")
        # Found now; that it is no model is another matter.
        until(lambda: "m.gguf" in checks(daemon)["model late"]["text"])

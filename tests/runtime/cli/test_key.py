"""`symbi key`: keys are shown, rotated, saved in one file and put back, with and without a daemon."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path
from typing import Any

from tests.runtime.daemon.running import running, symbi, write_program


def shown(root: Path, *arguments: str) -> Any:
    done = symbi(*arguments, "--json", root=root)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refused(root: Path, *arguments: str) -> str:
    """Run a command that must fail; return what it prints."""
    done = symbi(*arguments, root=root)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done.stderr


def lose_keys(root: Path) -> None:
    for lost in (root / ".symbi").glob("keys.db*"):
        lost.unlink()


def test_keys_are_rotated_saved_and_put_back(tmp_path: Path) -> None:
    write_program(tmp_path)
    file, root = tmp_path / "keys.json", tmp_path
    with running(tmp_path, "program") as daemon:
        ada = shown(root, "user", "add", "ada")["id"]
        assert daemon.github(b'{"action": "opened"}', "1").status == 202
        first = shown(root, "key", "status")
        assert {"owner", "ada"} <= {each["user"] for each in first["most_used"]}
        assert (first["exported"], first["resealing"]) == (None, None)
        answer = shown(root, "key", "rotate", "--all")
        assert set(answer["users"]) == {"owner", "ada"}
        saved = shown(root, "key", "export", str(file))
        assert saved == {"file": str(file), "keys": saved["keys"], "before": None}
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        content = file.read_text()
        assert ada in content
        # It replaces the one before, and names one that stays elsewhere.
        shown(root, "key", "export", str(file))
        elsewhere = tmp_path / "elsewhere.json"
        done = symbi("key", "export", str(elsewhere), root=root)
        assert f"delete the export before, {file}" in done.stdout
        before = shown(root, "key", "status")["master_key"]["id"]
        assert shown(root, "key", "rotate", "--master", "--yes")["master_key"] != before
        assert not shown(root, "key", "status")["exported"]["current"]
        assert "in use" in refused(root, "key", "import", str(file))
        shown(root, "key", "export", str(elsewhere))
        older = tmp_path / "older.json"
        older.write_bytes(elsewhere.read_bytes())
        done = symbi("user", "remove", "ada", "--yes", root=root)
        assert f"the export {elsewhere} still has the key of the user" in done.stdout
        shown(root, "key", "export", str(elsewhere))
    lose_keys(root)
    assert "symbi key import FILE" in refused(root, "key", "status")
    other = refused(root, "key", "import", str(file))
    assert "is wrapped with master key" in other
    assert "belongs in master.key of the root" in other
    # An older one has the two keys of a user who is not in the data any more.
    done = symbi("key", "import", str(older), root=root)
    assert done.returncode == 0, done.stderr
    assert "2 keys left out, of users who were removed or are not in the data" in done.stdout
    assert ada not in json.dumps(shown(root, "key", "status"))
    lose_keys(root)
    found = shown(root, "key", "import", str(elsewhere))
    assert found["added"] > 0
    assert found["left_out"] == 0
    # It lacks the key that indexes got when a user was removed.
    again = {"added": 0, "there": found["added"] - 1, "left_out": 2}
    assert shown(root, "key", "import", str(older)) == again
    assert {each["user"] for each in shown(root, "key", "status")["most_used"]} >= {"owner"}
    with running(tmp_path, "program") as daemon:
        [delivery] = shown(root, "webhook", "deliveries")["deliveries"]
        assert shown(root, "webhook", "show", delivery["id"])["body"] is not None


def test_what_cannot_be_done_is_said_in_one_line(tmp_path: Path) -> None:
    write_program(tmp_path)
    with running(tmp_path, "program"):
        for arguments, what in (
            (["rotate"], "one of --user NAME, --all and --master"),
            (["rotate", "--all", "--master"], "one of --user NAME, --all and --master"),
            (["rotate", "--user", "nobody"], "no user is called"),
            (["rotate", "--all", "--to", "secret://env/X"], "add --master"),
            (["rotate", "--master", "--yes", "--to", "secret://env/MISSING"], "does not refer to an existing key"),
            (["export", str(tmp_path / "missing" / "keys")], "no such file or directory"),
            (["import", str(tmp_path / "hooks")], "does not exist"),
        ):
            assert what in refused(tmp_path, "key", *arguments), arguments
        assert shown(tmp_path, "key", "status")["exported"] is None, "an export that was not written"
        assert re.search(r"[0-9] keys? in ", symbi("readiness", root=tmp_path).stdout)
    (tmp_path / "other").write_text("{}")
    assert "not an export of keys" in refused(tmp_path, "key", "import", str(tmp_path / "other"))

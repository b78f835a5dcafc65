"""Gates before a write, and the traces of a refused one."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.errors import GiveUp
from runtime.memory.errors import RefusedItem
from runtime.memory.item import Provenance, retraction_uri
from runtime.memory.records.gates import GATES, GateOpen
from runtime.memory.records.store import RecordsStore
from tests.runtime.memory.records.pieces import everything, last_write, only_record, record_files, tree
from tests.runtime.memory.texts import fact, item

SECRET = "ghp" + "_16C7e42F292c6912E7710c838347Ae178B4a"
OPEN = {
    "governance": "na:read-only",
    "tdd_proof": "na:docs-only",
    "evidence": "na:nothing to show",
}


def about(**fields: object) -> Provenance:
    return Provenance.model_validate(fields)


async def test_a_write_with_every_gate_closed_is_kept_and_says_how(
    store: RecordsStore, folder: Path, tmp_path: Path
) -> None:
    proof = tmp_path / "proof.json"
    proof.write_text("{}")
    store.configure({"gates": GATES})
    given = {"governance": "done:reviewed by Ada", "tdd_proof": "red:test_a failed green:test_a passed"}
    await store.append(
        [fact(provenance=about(risk_tier="YELLOW", sources=(str(proof), "https://example.com/1")))], gates=given
    )
    assert only_record(folder)["gates"] == {**given, "evidence": "files:1", "risk_tier": "YELLOW"}
    assert last_write(folder)["status"] == "stored"


async def test_the_designs_own_command_closes_its_gates(store: RecordsStore, folder: Path) -> None:
    store.configure({"gates": ("governance", "tdd_proof")})
    await store.append([fact()], gates={"governance": "na:read-only", "tdd_proof": "na:docs-only"})
    assert len(record_files(folder)) == 1


@pytest.mark.parametrize("gate", GATES)
async def test_a_gate_that_is_not_closed_refuses_the_write_and_says_how_to_close_it(
    gate: str, store: RecordsStore, folder: Path
) -> None:
    store.configure({"gates": (gate,)})
    given = {name: text for name, text in OPEN.items() if name != gate}
    with pytest.raises(GateOpen, match=f"the gate {gate} is not closed") as caught:
        await store.append([fact()], gates=given)
    assert caught.value.gates == (gate,)
    assert gate in (caught.value.hint or "")
    assert await everything(store) == []
    assert last_write(folder) == {
        "status": "refused", "id": None, "time": "2026-02-14T10:30:00Z", "remote": None, "gates": [gate],
    }  # fmt: skip


async def test_all_gates_that_are_open_are_named_at_once(store: RecordsStore) -> None:
    store.configure({"gates": GATES})
    with pytest.raises(GateOpen) as caught:
        await store.append([fact()])
    assert caught.value.gates == GATES


@pytest.mark.parametrize(
    ("gate", "text"),
    [
        ("governance", ""), ("governance", "yes"), ("governance", "na:"), ("governance", "done: "),
        ("governance", "na"), ("governance", "red:x green:y"), ("governance", "na:" + "x" * 2000),
        ("tdd_proof", ""), ("tdd_proof", "na:"), ("tdd_proof", "red:test failed"), ("tdd_proof", "green:passed"),
        ("tdd_proof", "trust me"), ("evidence", "done:x"), ("evidence", "na: "), ("risk_tier", "RED"),
    ],
)  # fmt: skip
async def test_what_does_not_close_a_gate_is_refused(gate: str, text: str, store: RecordsStore) -> None:
    store.configure({"gates": (gate,)})
    with pytest.raises(GateOpen, match=gate):
        await store.append([fact()], gates={gate: text})


@pytest.mark.parametrize("sources", [(), ("https://example.com/a",), ("relative.txt",), ("/nowhere/at/all",), ("/",)])
async def test_evidence_is_files_that_are_there(sources: tuple[str, ...], store: RecordsStore) -> None:
    store.configure({"gates": ("evidence",)})
    with pytest.raises(GateOpen, match="evidence"):
        await store.append([fact(provenance=about(sources=sources))])


async def test_one_file_that_is_missing_is_not_made_up_for_by_another(store: RecordsStore, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("x")
    store.configure({"gates": ("evidence",)})
    with pytest.raises(GateOpen, match="gone"):
        await store.append([fact(provenance=about(sources=(str(tmp_path / "there"), str(tmp_path / "gone"))))])


async def test_what_is_red_needs_what_was_done_about_it(store: RecordsStore, folder: Path) -> None:
    store.configure({"gates": ("risk_tier",)})
    red = fact(provenance=about(risk_tier="RED"))
    for given in ({}, {"governance": "na:because"}):
        with pytest.raises(GateOpen, match="governance"):
            await store.append([red], gates=given)
    await store.append([red], gates={"governance": "done:approved by two"})
    assert only_record(folder)["gates"] == {"governance": "done:approved by two", "risk_tier": "RED"}


async def test_a_gate_that_nobody_declared_may_be_closed_and_is_written_down(store: RecordsStore, folder: Path) -> None:
    await store.append([fact()], gates={"tdd_proof": "na:docs-only"})
    assert only_record(folder)["gates"] == {"tdd_proof": "na:docs-only"}


async def test_a_gate_that_does_not_exist_is_refused_by_name(store: RecordsStore) -> None:
    with pytest.raises(RefusedItem, match="tdd_prof") as caught:
        await store.append([fact()], gates={"tdd_prof": "na:x"})
    assert "tdd_proof" in (caught.value.hint or "")


async def test_only_a_retraction_of_undo_passes_open_gates(store: RecordsStore) -> None:
    (kept,) = await store.append([fact()])
    store.configure({"gates": GATES})
    retraction = fact("Withdrawn", retracts=kept.memory_id)
    with pytest.raises(GateOpen):
        await store.append([retraction])
    await store.append([retraction.with_fields(source_uri=retraction_uri(kept.memory_id))])
    assert len(await everything(store)) == 2


async def test_one_item_that_fails_a_gate_keeps_all_of_them_out(store: RecordsStore) -> None:
    store.configure({"gates": ("risk_tier",)})
    with pytest.raises(GateOpen):
        await store.append([fact("One", provenance=about(risk_tier="GREEN")), fact("Two")])
    assert await everything(store) == []


async def test_an_agents_own_write_is_given_up_and_not_tried_again(store: RecordsStore) -> None:
    store.configure({"gates": ("governance",)})
    with pytest.raises(GiveUp, match="governance"):
        await store.append([item("A delivery")])


async def test_no_secret_in_what_closes_a_gate_is_kept_or_shown(store: RecordsStore, folder: Path) -> None:
    await store.append([fact()], gates={"governance": f"done:token {SECRET}"})
    assert not [file for file in folder.rglob("*") if file.is_file() and SECRET.encode() in file.read_bytes()]
    assert "[REDACTED:github_token]" in only_record(folder)["gates"]["governance"]
    store.configure({"gates": ("evidence",)})
    with pytest.raises(GateOpen) as caught:
        await store.append([fact(provenance=about(sources=(f"/tmp/{SECRET}",)))])
    assert SECRET not in caught.value.line()


async def test_a_preview_shows_the_redacted_record_and_writes_nothing_at_all(
    store: RecordsStore, folder: Path, tmp_path: Path
) -> None:
    store.configure({"gates": ("governance", "tdd_proof")})
    one = fact(f"The token is {SECRET}", tags=("test",))
    (shown,) = await store.preview([one], gates=OPEN)
    assert not store.root.exists()
    assert shown["summary"] == "The token is [REDACTED:github_token]"
    assert shown["gates"] == OPEN
    assert shown["tags"] == ["test"]
    await store.append([fact("Before")], gates=OPEN)
    before = tree(tmp_path)
    (shown,) = await store.preview([one], gates=OPEN)
    with pytest.raises(GateOpen):
        await store.preview([one])
    assert tree(tmp_path) == before
    await store.append([one], gates=OPEN)
    kept = next(each for each in await everything(store) if "token" in each.text)
    assert set(shown) == set(only_record_of(folder, kept.memory_id))


def only_record_of(folder: Path, memory_id: str) -> dict[str, object]:
    from tests.runtime.memory.records.pieces import read_json

    (file,) = folder.glob(f"*_{memory_id}.json")
    return read_json(file)

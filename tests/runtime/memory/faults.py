"""Inject a fault at every call that touches the disk: `main` with `kill|full|disk MODULE FOLDER`.

The module has `CASES`. Each case runs in a fresh copy of its initial state, once for every such call. `kill`: in a
process that is killed (SIGKILL) just before that call, and for a write also after half of it. `full`: the call fails as
on a full disk, a write after half of it. `disk`: FOLDER is a small file system, with one more free page each time.
Then the assertions of `between` are checked, the case runs again without a fault, and those of `after` are checked.
Prints one line of JSON: for each case the number of faults and the failed assertions.
"""

from __future__ import annotations

import errno
import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypedDict

from runtime.memory.errors import FsyncFailed, StoreError
from tests.runtime.daemon import forked

Kind = Literal["kill", "full"]
Outcome = Literal["killed", "refused", "done"]
Faulty = Callable[["Case", Path, int, bool], bool]

_CALLS: Final = ("open", "write", "fsync", "replace", "rename", "unlink", "mkdir", "rmdir", "ftruncate")
_FILLING: Final = ("open", "write", "replace", "rename", "mkdir")
_MEMORY: Final = Path("/dev/shm")
_TREE: Final = Path(__file__).parents[3]


class Case(NamedTuple):
    """A case: `act` may be repeated after any fault; `between` and `after` assert what holds after it."""

    name: str
    prepare: Callable[[Path], None]
    act: Callable[[Path], None]
    between: Callable[[Path, Outcome], None]
    after: Callable[[Path], None]


class Found(TypedDict):
    """The number of faults in a case, and the failed assertions."""

    case: str
    faults: int
    broken: list[str]


def found(kind: Kind, module: str) -> list[Found]:
    """Return what `main` found in the cases of a module: for each its `case`, `faults` and `broken`.

    On a disk in memory if there is one, because a real one is slow with thousands of fsyncs.
    """
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        done = forked.run([kind, module, folder], cwd=_TREE, env=os.environ, main=f"{__name__}:main")
    assert done.returncode == 0, done.stderr
    cases: list[Found] = json.loads(done.stdout)
    return cases


def found_on_a_small_disk(module: str, folder: Path) -> list[Found]:
    """Return the same for a file system, mounted at `folder`, that is really full. Skip if mounting is not allowed."""
    import pytest  # the killed processes do not need it

    command = [sys.executable, "-m", __name__, "disk", module, str(folder)]
    mount = "mount -t tmpfs -o size=256k,nr_inodes=200 tmpfs $0"
    space = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    possible = shutil.which("unshare") and subprocess.run([*space, mount, folder], capture_output=True, check=False)
    if not possible or possible.returncode != 0:
        pytest.skip("no file system can be mounted here")
    done = subprocess.run(
        [*space, f'{mount} && exec "$@"', folder, *command], capture_output=True, text=True, check=False, cwd=_TREE
    )
    assert done.returncode == 0, done.stderr
    cases: list[Found] = json.loads(done.stdout)
    return cases


def no_leftovers(root: Path) -> None:
    """Assert that no temporary file is left."""
    left = [file.name for file in root.rglob("*") if "~" in file.name]
    assert not left, left


class Met:
    """The calls that were made, by name, and whether one of them got the fault."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.fault = False


@contextmanager
def fault_at(number: int, half: bool, fault: Callable[[], None], calls: tuple[str, ...]) -> Iterator[Met]:
    """Inject the fault at call `number`, counted from 1: before it, or after half of it if it is a write."""
    met = Met()
    real = {name: getattr(os, name) for name in calls}

    def faulty(name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if name == "open" and calls is _FILLING and not arguments[1] & os.O_CREAT:
                return real[name](*arguments, **named)
            met.calls.append(name)
            if len(met.calls) == number:
                met.fault = True
                if half and name == "write":
                    real[name](arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                fault()
            return real[name](*arguments, **named)

        return call

    for name in calls:
        setattr(os, name, faulty(name))
    try:
        yield met
    finally:
        for name, function in real.items():
            setattr(os, name, function)


def killed(case: Case, root: Path, number: int, half: bool) -> bool:
    """Run it in a process that is killed at that call; return whether it reached the call."""
    child = os.fork()
    if child == 0:
        try:
            with fault_at(number, half, lambda: os.kill(os.getpid(), signal.SIGKILL), _CALLS):
                case.act(root)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGKILL), status
    case.between(root, "killed")
    return status != 0


def full(case: Case, root: Path, number: int, half: bool) -> bool:
    """Run it while that call fails as on a full disk; return whether it reached the call."""

    def fault() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with fault_at(number, half, fault, _FILLING) as met:
        outcome = _act(case, root)
    case.between(root, outcome)
    return met.fault


def crowded(case: Case, root: Path, number: int, _half: bool) -> bool:
    """Run it on a disk with one page fewer than that number; return whether all pages were needed."""
    ballast = root.with_name("ballast")
    page = os.statvfs(root).f_bsize
    with ballast.open("wb", buffering=0) as file:
        for _ in range(os.statvfs(root).f_bavail - number + 1):
            file.write(bytes(page))
    outcome = _act(case, root)
    free = os.statvfs(root).f_bavail
    ballast.unlink()
    case.between(root, outcome)
    return outcome == "refused" or free == 0


def _act(case: Case, root: Path) -> Outcome:
    """Run it; if it fails, the error must report missing space: what, where and what to do."""
    refused: StoreError | None = None
    try:
        case.act(root)
    except FsyncFailed:
        raise
    except StoreError as error:
        refused = error
    if refused is None:
        return "done"
    assert "No space left" in str(refused), refused
    assert str(root) in str(refused), refused
    assert refused.hint is not None, refused
    return "refused"


def _writes(case: Case, begun: Path, root: Path, calls: tuple[str, ...]) -> set[int]:
    """Return which of the calls are writes, which may be interrupted half-way."""
    shutil.copytree(begun, root)
    with fault_at(0, False, lambda: None, calls) as met:
        case.act(root)
    shutil.rmtree(root)
    return {number for number, name in enumerate(met.calls, 1) if name == "write"}


def run(case: Case, faulty: Faulty, folder: Path) -> Found:
    """Return the number of faults, and the failed assertions."""
    begun = folder / "begun"
    begun.mkdir()
    case.prepare(begun)
    calls = _FILLING if faulty is full else _CALLS
    writes = set() if faulty is crowded else _writes(case, begun, folder / "counted", calls)
    number, broken, went_on = 0, [], True
    while went_on:
        number += 1
        for half in (False, True) if number in writes else (False,):
            root = folder / f"{number}-{half}"
            shutil.copytree(begun, root)
            try:
                went_on = faulty(case, root, number, half)
                case.act(root)
                case.after(root)
            except Exception as error:
                trace = traceback.extract_tb(error.__traceback__)[-1]
                broken.append(f"{number} {half}: {type(error).__name__}: {error} ({trace.name} {trace.lineno})")
            shutil.rmtree(root)
    shutil.rmtree(begun)
    return {"case": case.name, "faults": number - 1, "broken": broken}


def main() -> None:
    """Run the command, see above."""
    kind, module, folder = sys.argv[1:]
    faulty: Faulty = {"kill": killed, "full": full, "disk": crowded}[kind]
    cases: tuple[Case, ...] = import_module(module).CASES
    # Forks do not collect garbage among the objects that they share with this process.
    gc.collect()
    gc.freeze()
    print(json.dumps([run(case, faulty, Path(folder)) for case in cases]))  # noqa: T201


if __name__ == "__main__":
    main()

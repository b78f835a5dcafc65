"""Random bytes are drawn in blocks, and each is returned once."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from runtime.random_bytes import random_bytes

_FORKED = """
import os
from runtime.random_bytes import random_bytes
random_bytes(12)
read, write = os.pipe()
child = os.fork()
if not child:
    os.write(write, random_bytes(12))
    os._exit(0)
os.waitpid(child, 0)
assert os.read(read, 12) != random_bytes(12)
"""


def test_nothing_is_given_twice() -> None:
    taken = [random_bytes(12) for _ in range(2000)]

    assert {len(each) for each in taken} == {12}
    assert len(set(taken)) == len(taken)


def test_threads_are_given_different_bytes() -> None:
    with ThreadPoolExecutor(4) as threads:
        taken = [
            each for some in threads.map(lambda _: [random_bytes(9) for _ in range(2000)], range(8)) for each in some
        ]

    assert len(set(taken)) == len(taken)


def test_a_forked_process_is_given_other_bytes_than_the_one_it_is_from() -> None:
    subprocess.run([sys.executable, "-c", _FORKED], check=True, timeout=60)

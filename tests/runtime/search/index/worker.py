"""`python -m tests.runtime.search.index.worker work PATH STEPS PART… | qdrant PATH URL STEPS PART… | limited PATH |
full PATH`: a process that writes an index, to be killed or to run out of space. The content of a part depends only
on its name and revision."""

from __future__ import annotations

import asyncio
import random
import resource
import sys
from datetime import timedelta
from pathlib import Path

from dslc.blocks.variant import Variant
from runtime.search.entry import IndexEntry
from runtime.search.errors import IndexFailed
from runtime.search.index import open_index
from runtime.search.index.index import Index
from tests.runtime.search.index.checker import key_of
from tests.runtime.search.index.entries import DIMENSION, EVERYTHING, TOKEN_BITS, WHEN, append, embed_with_tokens, entry

WORDS = ["alpha", "beta", "gamma", "delta", "zebra", "horse", "running", "house", "river", "mountain"]


def content(part: str, revision: str) -> list[IndexEntry]:
    """Return the content of the part at a revision `GENERATION.LENGTH`: a longer one has the entries of a shorter
    one."""
    generation, length = map(int, revision.split("."))
    chance = random.Random(f"{part} {generation}")
    return [
        entry(
            f"{part}-{generation % 2}-{number}",
            " ".join(chance.choices(WORDS, k=1 + number % 12)) + f" of{generation}",
            part=part, group=part, order=number, time=WHEN + timedelta(minutes=number), tags=("t", part),
        )
        for number in range(length)
    ]  # fmt: skip


def say(what: object) -> None:
    """Report to the parent process."""
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


async def step(index: Index, part: str, number: int) -> None:
    """Do a random step: put, grow, embed or drop."""
    revision = (await index.parts()).get(part)
    if revision is None or number % 4 == 0:
        revision = f"{number}.{20 + number % 30}"
        await index.put(part, "reviewer", revision, content(part, revision))
    else:
        generation, length = map(int, revision.split("."))
        after = f"{generation}.{length + 3}"
        assert await append(index, part, "reviewer", revision, after, content(part, after)[length:])
    await embed_with_tokens(index, 25)
    if number % 11 == 10:
        await index.drop([part])


async def work(path: Path, parts: list[str], steps: int, url: str | None = None) -> None:
    """Do many steps and report each when it is done. `url`: of the Qdrant server with the index."""
    choice = None if url is None else Variant(name="qdrant")
    index = await open_index(choice, path, {} if url is None else {"url": url}, key=key_of(path))
    await index.use_model("m", DIMENSION, TOKEN_BITS)
    for number in range(steps):
        await step(index, parts[number % len(parts)], number)
        say(number)
    await index.close()


async def fill(path: Path, limited: bool) -> None:
    """Write until there is no space, then free some (RLIMIT_FSIZE, or a file `ballast` is deleted) and continue."""
    index = await open_index(None, path, {}, key=key_of(path))
    await index.use_model("m", DIMENSION, TOKEN_BITS)
    await step(index, "first", 0)
    if limited:
        size = sum(Path(f"{path}{suffix}").stat().st_size for suffix in ("", "-wal"))
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50_000, resource.RLIM_INFINITY))
    for number in range(1000):
        try:
            await index.put(f"p{number}", "reviewer", "1.40", content(f"p{number}", "1.40"))
            await embed_with_tokens(index)
        except IndexFailed as error:
            say(error.line())
            break
    found = await index.keyword(["alpha"], EVERYTHING, 10)
    say(len(found.keys))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    (path.parent / "ballast").unlink(missing_ok=True)
    await step(index, "last", 0)
    await embed_with_tokens(index, 100_000)
    say(" ".join(sorted(await index.parts())))
    await index.close()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["work", path, steps, *parts]:
            asyncio.run(work(Path(path), parts, int(steps)))
        case ["qdrant", path, url, steps, *parts]:
            asyncio.run(work(Path(path), parts, int(steps), url))
        case [how, path]:
            asyncio.run(fill(Path(path), how == "limited"))

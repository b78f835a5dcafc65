"""The daemon. `serve` is read top to bottom: own, open, load, listen, watch; then stop in the reverse order."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import structlog
from aiohttp import web

from runtime.agents import act
from runtime.daemon.admin import admin, operators
from runtime.daemon.house import House
from runtime.daemon.listeners import admin_socket_path, bind, listen, listen_unix, shown
from runtime.daemon.reload import Compiled
from runtime.daemon.root import Root, own
from runtime.daemon.settings import Settings
from runtime.daemon.supervisor import Supervisor
from runtime.daemon.systemd import Notifier
from runtime.daemon.watch import changes
from runtime.memory import FsyncFailed
from runtime.threads import RunLog
from runtime.webhooks.admission import Admission
from runtime.webhooks.audit import Audit
from runtime.webhooks.delivery import AgentGone, Work
from runtime.webhooks.dispatcher import Dispatcher
from runtime.webhooks.receiver import Receiver

log = structlog.get_logger("symbiont.daemon")

DAEMON_FILE = "daemon.json"
_PRUNE_SECONDS = 600


async def serve(
    root: Root,
    settings: Settings,
    paths: Sequence[Path],
    *,
    announce: Callable[[House], None],
    refuse: Callable[[Compiled], None],
) -> bool:
    """Run until SIGTERM or SIGINT; True when it stopped because it was asked to.

    `announce` is called once, when everything listens; `refuse` with a first program that has errors, and nothing is
    started then. Raises UsageError for what a person can mend before the start.
    """
    notifier, tasks = Notifier(os.environ), Supervisor()
    serving = False
    with own(root):
        # The ports first: they are the likeliest thing to be wrong, and nothing has been touched yet.
        with bind("--listen", settings.listen) as public, bind("--admin-listen", settings.admin_listen) as private:
            async with House.open(root, settings) as house:
                compiled = await house.load(paths)
                if compiled.program is None:
                    refuse(compiled)
                    return False
                house.remember_program()
                audit = Audit(house.database, house.clock)
                admission = Admission(house.database, house.clock, capacity=settings.inbox_capacity)
                dispatcher = Dispatcher(house.database, house.clock, _runner(house, tasks), workers=settings.workers)
                admission.on_admitted = dispatcher.wake
                receiver = Receiver(lambda: house.table, admission, audit, house.clock)
                # A compressed body is refused by the receiver, so it must arrive as it was sent.
                hooks = web.Server(receiver.handle, access_log=None, auto_decompress=False)
                drain = settings.drain_seconds
                async with (
                    listen(web.AppRunner(operators(house, lambda: serving), access_log=None), private),
                    admin_socket_path(os.environ) as path,
                    listen_unix(web.AppRunner(admin(house, lambda: serving), access_log=None), path),
                    listen(web.ServerRunner(hooks, shutdown_timeout=drain), public),
                ):
                    house.addresses = {"public": shown(public), "admin": shown(private)}
                    root.write(DAEMON_FILE, {"pid": os.getpid(), "socket": str(path), **house.addresses})
                    tasks.start("audit", audit.run())
                    tasks.start("dispatcher", dispatcher.run())
                    tasks.start("watch", _watch(house))
                    tasks.start("prune", _prune(house, dispatcher, settings))
                    tasks.start("watchdog", notifier.watch())
                    _on_signals(house, tasks, notifier)
                    serving = True
                    announce(house)
                    notifier.ready(_status(house))
                    await tasks.wait()
                    serving = False
                    notifier.stopping()
                    log.info("stopping")
                # No more deliveries come in from here on; what was accepted is on disk.
                (root.state / DAEMON_FILE).unlink(missing_ok=True)
                await dispatcher.stop(settings.drain_seconds)
                await tasks.cancel()
                await admission.close()
                await audit.close()
    log.info("stopped")
    return not tasks.failed


def _runner(house: House, tasks: Supervisor) -> Callable[[Work, RunLog], Awaitable[None]]:
    async def run(work: Work, run_log: RunLog) -> None:
        generation = house.generation
        assert generation is not None
        async with generation.pinned():
            agent = generation.agent(work.agent)
            if agent is None or not agent.enabled:
                raise AgentGone(work.agent)
            store = generation.memories[generation.memory_name(work.agent, work.webhook)]
            try:
                await act(agent, work, run_log, store)
            except FsyncFailed as error:
                # What the kernel could not write is lost to every later fsync; only a restart reads the truth again.
                tasks.fail(str(error))
                raise

    return run


async def _watch(house: House) -> None:
    def ignored() -> list[Path]:
        return [house.root.state, *(store.folder for store in house.memories.values())]

    async for _ in changes(house.paths, ignored):
        await house.reload()


async def _prune(house: House, dispatcher: Dispatcher, settings: Settings) -> None:
    while True:
        await dispatcher.prune(keep_seconds=settings.keep_days * 86_400)
        await house.clock.sleep(_PRUNE_SECONDS)


def _on_signals(house: House, tasks: Supervisor, notifier: Notifier) -> None:
    loop = asyncio.get_running_loop()

    async def reload() -> None:
        notifier.reloading()
        await house.reload(force=True)
        notifier.ready(_status(house))

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, tasks.stop)
    loop.add_signal_handler(signal.SIGHUP, lambda: tasks.start("reload", reload()))


def _status(house: House) -> str:
    return f"{len(house.table)} webhooks on {house.addresses['public']}"

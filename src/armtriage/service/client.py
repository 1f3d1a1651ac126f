"""Client: decisions and rewards over HTTP, each sent until it is acknowledged, and counted once."""

from __future__ import annotations

import asyncio
import http.client
import json
import random
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, Self, TypeVar
from urllib.parse import quote, urlsplit

from armtriage.errors import ArmtriageError

_TRIES = 5
_PAUSE = 0.05  # seconds before the second try; each next waits twice as long
_AGAIN = (408, 429, 502, 503, 504, 507)
_BROKEN = (OSError, http.client.HTTPException)
Found = TypeVar("Found")


class _Left:
    """Stands for an argument that is left out, where None has a meaning."""


class ServiceError(ArmtriageError, RuntimeError):
    """The service refused a request; `code` is one of its fixed words, such as ``"conflict"``."""

    def __init__(self, status: int, code: str, detail: str, fates: Mapping[str, str] | None = None) -> None:
        super().__init__(f"{code}: {detail}")
        self.status, self.code, self.fates = status, code, dict(fates or {})


class Unavailable(ServiceError):
    """The service did not answer in time; whether the request was stored is not known."""


class ServedDecision(NamedTuple):
    """A decision of the service: show `arms`, of which `ranked` has the best first, and tell what came of `show`.

    `logged` is False for a fallback, of which the service knows nothing, and whose rewards are not sent. Where there is
    a control group, `group` is "policy" or "control"; a decision of the control without arms shows what is shown
    without the policy, and is told by its total. While a policy observes, `arms` are what another system shows, and
    `would_show` what it would have shown.
    """

    id: str
    arms: list[str]
    show: list[str]
    number: int = -1
    logged: bool = True
    ranked: Sequence[str] = ()
    group: str = ""
    would_show: Sequence[str] = ()


class Client:
    """Asks a service for decisions and tells it rewards; may be used by several threads, which have a connection each.

    Every request can be repeated: decisions have ids that the client makes, so a lost answer is asked for again,
    and a reward that was stored before is not counted twice.

    Parameters
    ----------
    url : str
        Where the service is, such as ``"http://127.0.0.1:8000"``.
    key : str, optional
        Its key, as ``armtriage key new`` printed it.
    deadline : float
        Seconds after which a request is given up, with all its repetitions.

    Examples
    --------
    >>> client = Client("http://127.0.0.1:1", deadline=0.2)
    >>> client.decide("front-page", fallback=["tea", "milk"])  # no server is there
    ServedDecision(id='...', arms=['tea', 'milk'], show=['tea', 'milk'], number=-1, logged=False,
    ranked=['tea', 'milk'], group='', would_show=())
    """

    def __init__(self, url: str, key: str | None = None, *, deadline: float = 5.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url must be http://HOST:PORT or https://HOST:PORT, got {url!r}")
        if not deadline > 0:
            raise ValueError(f"deadline must be a positive number of seconds, got {deadline!r}")
        self._secure, self._host, self._port = parts.scheme == "https", parts.hostname, parts.port
        self._path = parts.path.rstrip("/")
        self._headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        self.deadline = deadline
        self._own = threading.local()
        self._all: list[http.client.HTTPConnection] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        for connection in self._all:
            connection.close()
        self._all.clear()
        self._own = threading.local()

    def decide(
        self,
        policy: str,
        *,
        id: str | None = None,
        exclude: Iterable[str] | None = None,
        eligible: Iterable[str] | None = None,
        contexts: Mapping[str, Sequence[float]] | Sequence[Sequence[float]] | None = None,
        rows: Mapping[str, Mapping[str, Any]] | Sequence[Mapping[str, Any]] | None = None,
        tags: Mapping[str, Any] | None = None,
        unit: str | None = None,
        incumbent: Iterable[str] | None = None,
        shown: Iterable[str] | None = None,
        inclusion: Mapping[str, float] | None = None,
        fallback: Sequence[str] | Callable[[], Sequence[str]] | None = None,
    ) -> ServedDecision:
        """Return a decision.

        Parameters
        ----------
        policy : str
            The policy's name.
        id : str, optional
            The decision's id, for one that may be asked for again elsewhere; by default a new one.
        exclude, eligible, contexts, rows, tags, unit, incumbent, shown, inclusion
            As the service takes them.
        fallback : sequence of str or callable, optional
            The arms to show if the service does not answer; without it that raises `Unavailable`.
        """
        key = secrets.token_hex(12) if id is None else id
        given = {"exclude": exclude, "eligible": eligible, "contexts": contexts, "rows": rows, "tags": tags}
        given |= {"unit": unit, "incumbent": incumbent, "shown": shown, "inclusion": inclusion}
        body = {"id": key, **{name: _plain(value) for name, value in given.items() if value is not None}}
        try:
            made = self.request("POST", f"/v1/policies/{_part(policy)}/decisions", body)
        except Unavailable:
            if fallback is None:
                raise
            arms = list(fallback() if callable(fallback) else fallback)
            return ServedDecision(key, arms, arms, logged=False, ranked=arms)
        arms, number = made["arms"] or [], made["number"]  # decisions of the control may have neither
        ranked = made.get("ranked", arms)  # a decision of an earlier version has none
        number = -1 if number is None else number
        more = {"group": made.get("group", ""), "would_show": made.get("would_show", ())}
        return ServedDecision(made["id"], arms, made["show"], number, ranked=ranked, **more)

    def reward(
        self,
        policy: str,
        decision: ServedDecision | str,
        rewards: Mapping[str, float] | None = None,
        *,
        hits: Iterable[str] | None = None,
        id: str | None = None,
        last: bool | None = None,
        total: float | None = None,
        metrics: Mapping[str, float] | None = None,
        first: str | type[_Left] | None = _Left,
    ) -> dict[str, str]:
        """Tell rewards of a decision, and return the fate of each; of a fallback none are sent.

        Parameters
        ----------
        policy : str
            The policy's name.
        decision : ServedDecision or str
            The decision, or its id.
        rewards : mapping, optional
            Rewards by arm.
        hits : iterable of str, optional
            Instead: the arms with reward 1; unless more hits may follow, all others that were shown have 0.
        id : str, optional
            Tells several rewards of one arm apart, where the policy's rule is ``last`` or ``sum``.
        last : bool, optional
            Whether no more will come; by default True for `hits`, and False for `rewards`.
        total : float, optional
            Instead: what a decision of the control earned in all.
        metrics : mapping, optional
            Second numbers of the decision, by name, with the rewards or by themselves.
        first : str or None, optional
            Instead, where the feedback is a cascade: the arm that was clicked first, None for none.
        """
        if isinstance(decision, ServedDecision) and not decision.logged:
            return {}
        body: dict[str, Any] = {"decision": decision.id if isinstance(decision, ServedDecision) else decision}
        given = {"rewards": rewards, "hits": hits, "id": id, "last": last, "total": total, "metrics": metrics}
        body |= {name: _plain(value) for name, value in given.items() if value is not None}
        if first is not _Left:
            body["first"] = first
        found: dict[str, str] = self.request("POST", f"/v1/policies/{_part(policy)}/rewards", body)["fates"]
        return found

    def create(self, **recipe: Any) -> dict[str, Any]:
        """Make a policy; the arguments are the fields of the service's JSON."""
        made: dict[str, Any] = self.request("POST", "/v1/policies", recipe, again=False)
        return made

    def policy(self, name: str) -> dict[str, Any]:
        """Return all that the service shows of a policy."""
        found: dict[str, Any] = self.request("GET", f"/v1/policies/{_part(name)}")
        return found

    def change_arms(self, name: str, **change: Any) -> dict[str, Any]:
        """Add, retire and restore arms."""
        found: dict[str, Any] = self.request("PATCH", f"/v1/policies/{_part(name)}/arms", change, again=False)
        return found

    def request(self, method: str, path: str, body: Any = None, *, again: bool = True) -> Any:
        """Send a request, and with `again` repeat it until it is answered or the deadline has passed."""
        text = None if body is None else json.dumps(body, allow_nan=False).encode()
        until, pause, said = time.monotonic() + self.deadline, _PAUSE, "no answer"
        for attempt in range(_TRIES if again else 1):
            if attempt:
                time.sleep(min(pause * random.uniform(0.5, 1.0), max(until - time.monotonic(), 0.0)))
                pause *= 2
            left = until - time.monotonic()
            if left <= 0:
                break
            try:
                status, wait, answer = self._once(method, self._path + path, text, left)
            except _BROKEN as error:
                self._drop()
                said = f"{type(error).__name__}: {error}"
                continue
            if status < 300:
                return answer
            if status not in _AGAIN:
                raise _error(status, answer)
            said, pause = answer.get("error", str(status)), max(pause, min(wait, 1.0))
        raise Unavailable(503, "unavailable", f"the service did not do it in {self.deadline:g} s: {said}")

    def _once(self, method: str, path: str, body: bytes | None, left: float) -> tuple[int, float, Any]:
        connection = getattr(self._own, "connection", None)
        if connection is None:
            kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
            connection = self._own.connection = kind(self._host, self._port, timeout=left)
            self._all.append(connection)
        connection.timeout = left
        if connection.sock is not None:
            connection.sock.settimeout(left)
        connection.request(method, path, body, self._headers)
        response = connection.getresponse()
        content = response.read()
        try:
            answer = json.loads(content)
        except ValueError:
            answer = {"error": "no_json", "detail": "the answer is not JSON: is it the service?"}
        wait = response.getheader("Retry-After", "0")
        return response.status, float(wait) if wait.isdigit() else 0.0, answer

    def _drop(self) -> None:
        connection = getattr(self._own, "connection", None)
        if connection is not None:
            connection.close()


def _plain(value: Any) -> Any:
    """Return what JSON has for a value: lists for what is iterated over, and objects for mappings."""
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, Iterable) and not isinstance(value, str) else value


def _part(name: str) -> str:
    return quote(name, safe="")


def _error(status: int, answer: Any) -> ServiceError:
    said = answer if isinstance(answer, dict) else {}
    return ServiceError(status, said.get("error", "unknown"), said.get("detail", ""), said.get("fates"))


class AsyncClient:
    """The same for programs that use asyncio: each method of `Client` in a thread of its own pool.

    Parameters
    ----------
    url, key, deadline
        See `Client`.
    connections : int
        How many requests may be under way.

    Examples
    --------
    >>> async def main():
    ...     async with AsyncClient("http://127.0.0.1:1", deadline=0.2) as client:
    ...         return await client.decide("front-page", fallback=["tea"])
    >>> asyncio.run(main()).logged
    False
    """

    def __init__(self, url: str, key: str | None = None, *, deadline: float = 5.0, connections: int = 32) -> None:
        self._client = Client(url, key, deadline=deadline)
        self._threads = ThreadPoolExecutor(connections, thread_name_prefix="armtriage-client")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Wait for requests under way, and close all connections."""
        await asyncio.to_thread(self._threads.shutdown)
        self._client.close()

    async def _call(self, method: Callable[..., Found], *arguments: Any, **named: Any) -> Found:
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(method, *arguments, **named))

    async def decide(self, policy: str, **request: Any) -> ServedDecision:
        """Return a decision; see `Client.decide`."""
        return await self._call(self._client.decide, policy, **request)

    async def reward(
        self,
        policy: str,
        decision: ServedDecision | str,
        rewards: Mapping[str, float] | None = None,
        **more: Any,
    ) -> dict[str, str]:
        """Tell rewards of a decision; see `Client.reward`."""
        return await self._call(self._client.reward, policy, decision, rewards, **more)

    async def create(self, **recipe: Any) -> dict[str, Any]:
        """Make a policy; see `Client.create`."""
        return await self._call(self._client.create, **recipe)

    async def policy(self, name: str) -> dict[str, Any]:
        """Return all that the service shows of a policy."""
        return await self._call(self._client.policy, name)

    async def change_arms(self, name: str, **change: Any) -> dict[str, Any]:
        """Add, retire and restore arms."""
        return await self._call(self._client.change_arms, name, **change)

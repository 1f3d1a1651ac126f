"""A client's connection: one that does not say what it wants is closed, and costs little until it speaks."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from armtriage.service.peers import HANDED
from armtriage.service.protocol import WHOLE

_GO_ON = b"HTTP/1.1 100"
SILENCE = 20.0
"""Seconds in which a connection must say something, and seconds that the head of a request may take from there."""

LONGEST = 2**16
"""Bytes of a head, as many as arrive before it is whole."""

_AROUND = len(b": " + b"\r\n")  # a header


class NewConnection(asyncio.Protocol):
    """A connection that has said nothing yet: a third of the memory of one that has, of which there may be thousands.

    Beyond the limit a connection is closed at once; uvicorn itself would keep it, and refuse each of its requests.
    """

    __slots__ = ("_config", "_end", "_loop", "_of_app", "_state", "_transport")

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._config, self._state, self._of_app = config, server_state, app_state
        self._loop = _loop or asyncio.get_running_loop()
        self._end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait."""
        self._transport = transport
        self._state.connections.add(self)  # type: ignore[arg-type]
        limit = self._config.limit_concurrency
        if limit is not None and len(self._state.connections) > limit:
            transport.abort()
        else:
            self._end = self._loop.call_later(SILENCE, transport.close)

    def data_received(self, data: bytes) -> None:
        """Let the client in."""
        self._leave()
        connection = Connection(self._config, self._state, self._of_app, self._loop)
        self._transport.set_protocol(connection)
        connection.connection_made(self._transport)
        connection.data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._leave()

    def shutdown(self) -> None:
        """Close: the server stops."""
        self._transport.close()

    def _leave(self) -> None:
        self._state.connections.discard(self)
        if self._end is not None:
            self._end.cancel()
            self._end = None


class _Joining:
    """A transport that sends the head of an answer with the first piece of its body, in one call of the system."""

    __slots__ = ("_head", "_transport", "is_closing")

    def __init__(self, transport: Any) -> None:
        self._transport, self._head = transport, b""
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        """Send, or keep a head; no body begins like one."""
        if self._head:
            data, self._head = self._head + data, b""
        elif data.endswith(b"\r\n\r\n") and data.startswith(b"HTTP/1.1 ") and not data.startswith(_GO_ON):
            self._head = data
            return
        self._transport.write(data)

    def flush(self) -> None:
        """Send a head that has no body."""
        if self._head:
            self.write(b"")

    def close(self) -> None:
        """Send what is left, and close."""
        self.flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Connection(HttpToolsProtocol):
    """What uvicorn makes of a connection, with limits on the heads of requests; it has none itself.

    Whenever the client's next word is awaited, a timer runs: also in the rest of a body whose answer was sent before.
    """

    _reading = True  # a head that is not whole
    _read = 0  # bytes of it that came after the piece in which it began
    _size = 0  # of its address and lines
    _began = False  # in the piece that is being read
    _end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin."""
        super().connection_made(transport)
        self.transport = self._joining = _Joining(transport)  # type: ignore[assignment]

    def on_response_complete(self) -> None:
        """Send what is left of an answer, and go on with the next request."""
        self._joining.flush()
        super().on_response_complete()

    def on_message_begin(self) -> None:
        """Note that a head has begun."""
        super().on_message_begin()
        self._reading, self._began, self._size = True, True, 0

    def on_url(self, url: bytes) -> None:
        """Take a part of the address."""
        self._size += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a line of the head; one that comes after the body is none, whatever it claims to be."""
        if self._reading:
            self._size += len(name) + len(value) + _AROUND
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Note that a head is whole, and refuse one that is too long although it came at once."""
        self._reading, self._read = False, 0
        if self._size > LONGEST:
            raise ValueError("the head of a request is too long")  # which is answered as no HTTP
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Note that a body is whole, nearly always before it is asked for."""
        self.scope[WHOLE] = True  # type: ignore[literal-required]
        super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        """Read; nearly always this is a whole request, and no timer is needed."""
        self._began = False
        super().data_received(data)
        if self._reading:
            self._read += 0 if self._began else len(data)
            if self._read > LONGEST:
                self.send_400_response("The head of the request is too long.")
                return
        if self._reading or self.cycle is None or self.cycle.response_complete:
            if self._end is None:
                self._end = self.loop.call_later(SILENCE, self.transport.close)
        elif self._end is not None:
            self._end.cancel()
            self._end = None

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answer a client that has sent its last request, whole; let streams end, and servers that gave up."""
        one = self.cycle
        if one is None or one.more_body or one.response_complete or one.scope["method"] != "POST":
            return False
        if any(name == HANDED for name, _ in one.scope["headers"]):
            return False
        one.keep_alive = False
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        if self._end is not None:
            self._end.cancel()
            self._end = None
        super().connection_lost(exc)

"""A client's connection: one that does not say what it wants is closed."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["Connection"]

SILENCE = 20.0
"""Seconds that the head of a request may take, from the connection or from its first byte."""

LONGEST = 2**16
"""Bytes of a head, as many as arrive before it is whole."""


class Connection(HttpToolsProtocol):
    """What uvicorn makes of a connection, with limits on the heads of requests; it has none itself."""

    _reading = True  # a head that is not whole
    _read = 0
    _end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin; beyond the limit the connection is closed at once."""
        super().connection_made(transport)
        if self.limit_concurrency is not None and len(self.connections) > self.limit_concurrency:
            transport.abort()
        else:
            self._end = self.loop.call_later(SILENCE, transport.close)

    def on_message_begin(self) -> None:
        """Note that a head has begun."""
        super().on_message_begin()
        self._reading = True

    def on_headers_complete(self) -> None:
        """Note that a head is whole."""
        self._reading, self._read = False, 0
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """Read; nearly always this is a whole head, and no timer is needed."""
        super().data_received(data)
        if self._reading:
            self._read += len(data)
            if self._read > LONGEST:
                self.transport.close()
            elif self._end is None:
                self._end = self.loop.call_later(SILENCE, self.transport.close)
        elif self._end is not None:
            self._end.cancel()
            self._end = None

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        if self._end is not None:
            self._end.cancel()
            self._end = None
        super().connection_lost(exc)

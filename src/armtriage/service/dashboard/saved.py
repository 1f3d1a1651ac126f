"""The dashboard of a policy in a file: the same page, read only, with nothing but the standard library to serve it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from armtriage import __version__
from armtriage.errors import ArmtriageError
from armtriage.policies import Policy
from armtriage.service.dashboard import session
from armtriage.service.dashboard.items import asked_for
from armtriage.service.dashboard.page import HEADERS, as_json, headers, render
from armtriage.service.dashboard.summary import summary
from armtriage.service.view import PolicyView, look


class Saved:
    """A view of the policy in a file; if the file changes, of the new one.

    Parameters
    ----------
    path : Path
        What `armtriage.Policy.save` wrote.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._lock = path, Lock()
        self._read()

    def _read(self) -> None:
        at = self.path.stat().st_mtime_ns
        policy = Policy.load(self.path)
        self.view = look(policy, open=len(policy.open_decisions), head=at, status="saved")
        self.at = at
        self._file = {"name": self.path.name, "saved": at // 10**6, "seed": policy.seed, "digest": policy.digest()}

    def current(self) -> PolicyView:
        """Return the view now; a file that is being replaced, or is no policy any more, changes nothing."""
        with self._lock:
            try:
                if self.path.stat().st_mtime_ns != self.at:
                    self._read()
            except (OSError, ValueError, ArmtriageError):
                pass
            return self.view

    def page(self, chosen: Mapping[str, str]) -> dict[str, Any]:
        """Return all that the page shows."""
        self.current()
        return {
            "who": {"scopes": ["read"], "label": "", "open": True, "signed": False},
            "version": __version__,
            "now": time.time_ns() // 10**6,
            "page": "policy",
            "name": self.path.stem,
            "known": True,
            "file": self._file,
            "policy": self.numbers() | {"items": self.items(chosen)},
        }

    def numbers(self) -> dict[str, Any]:
        """Return what changes with the file."""
        view = self.current()
        facts = {"name": self.path.stem, "now": time.time_ns() // 10**6, "ready": True, "status": view.status}
        return facts | {"open": view.open, "oldest": view.oldest, "head": view.head, **summary(view)}

    def items(self, chosen: Mapping[str, str]) -> dict[str, Any]:
        """Return a page of the arms."""
        return asked_for(self.current(), chosen)


class SavedServer(ThreadingHTTPServer):
    """Serves the page of a file, to this machine."""

    daemon_threads = True

    def __init__(self, saved: Saved, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.saved = saved


class _Handler(BaseHTTPRequestHandler):
    server: SavedServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "armtriage", ""

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet."""

    def do_GET(self) -> None:
        """Answer."""
        if not session.is_local(self.headers.get("host", "").encode("ascii", "replace")):
            # Another site's name that leads here would let its pages read this one.
            self._send(403, b"", [(b"content-type", b"text/plain"), *HEADERS])
            return
        address = urlsplit(self.path)
        path, chosen = unquote(address.path), dict(parse_qsl(address.query[:2000], max_num_fields=16))
        saved = self.server.saved
        if path == "/dashboard/stream":
            self._stream()
        elif path == "/dashboard/page":
            self._json(saved.page(chosen))
        elif path.startswith("/dashboard/items/"):
            self._json(saved.items(chosen))
        elif path == "/healthz":
            self._json({"live": True})
        elif path == "/":
            self._send(200, render(saved.page(chosen)), headers())
        else:
            self._send(404, b"", [(b"content-type", b"text/plain"), *HEADERS])

    def _json(self, facts: Any) -> None:
        self._send(200, as_json(facts), [(b"content-type", b"application/json"), *HEADERS])

    def _send(self, status: int, body: bytes, given: list[tuple[bytes, bytes]]) -> None:
        self.send_response(status)
        for name, value in (*given, (b"content-length", b"%d" % len(body))):
            self.send_header(name.decode(), value.decode())
        self.end_headers()
        self.wfile.write(body)

    def _stream(self) -> None:
        """Say every second that the server lives, and when the file has changed, what it holds."""
        self.send_response(200)
        for name, value in ((b"content-type", b"text/event-stream"), *HEADERS, (b"connection", b"close")):
            self.send_header(name.decode(), value.decode())
        self.end_headers()
        self.close_connection = True
        saved = self.server.saved
        last = saved.at
        try:
            while True:
                saved.current()
                if saved.at == last:
                    self.wfile.write(b"event: tick\ndata: {}\n\n")
                else:
                    last = saved.at
                    self.wfile.write(b"event: changed\ndata: {}\n\n")
                self.wfile.flush()
                time.sleep(1.0)
        except OSError:
            return

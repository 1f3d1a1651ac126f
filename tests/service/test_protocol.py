"""Connections are read in our own way only where it fits the uvicorn that is installed."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from armtriage.service.connection import NewConnection
from armtriage.service.protocol import protocol

_SERVED = """
import sys, urllib.request
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
usual = HttpToolsProtocol.on_header
HttpToolsProtocol.on_header = lambda self, name, value, more=None: usual(self, name, value)
import os, signal, threading
from armtriage.service import server
from armtriage.service.stores import SqliteStore

def ask(_, port):
    def go():
        body = b'{"name": "slate", "arms": ["tea", "milk"], "budget": 1, "policy": {"kind": "greedy"}}'
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/policies", body) as answer:
                print(answer.status, flush=True)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
    threading.Thread(target=go).start()

server.run(SqliteStore(sys.argv[1]), "127.0.0.1", 0, ask)
"""


def test_our_own_is_used_with_this_uvicorn(caplog: pytest.LogCaptureFixture) -> None:
    assert protocol() is NewConnection
    assert caplog.records == []


def test_a_method_that_is_gone_or_takes_something_else_is_noticed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
        patched.delattr(HttpToolsProtocol, "on_url")
        assert protocol() == "auto"
        patched.undo()
        patched.setattr(HttpToolsProtocol, "on_header", lambda self, name, value, more: None)
        assert protocol() == "auto"
    assert ["on_url" in caplog.messages[0], "on_header" in caplog.messages[1]] == [True, True]


@pytest.mark.skipif(os.name != "posix", reason="stops a server by a signal")
def test_another_uvicorn_serves(tmp_path) -> None:
    command = [sys.executable, "-c", _SERVED, str(tmp_path / "decisions.db")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.stdout == "201\n", done.stderr
    assert "HttpToolsProtocol.on_header of uvicorn is not as it was" in done.stderr

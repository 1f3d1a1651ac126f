"""What the operator reads: one line for each thing that happened, as text or as JSON."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from armtriage.service.refusal import Refused

FORMS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")

_LOG = logging.getLogger("armtriage.service")
_WAITING = 10_000  # lines that may wait until standard error takes them
_PATIENCE = 1.0  # seconds that standard error has for what waits at the end
_SECRETS = re.compile(r"(at_[0-9a-f]{8}_)[\w-]+|(://[^/\s:@]*:)[^/\s]*(?=@)")
_REFUSED_KEYS = frozenset({401, 403, 429})


def note(level: int, event: str, text: str, *, error: BaseException | None = None, **facts: object) -> None:
    """Write a line: what happened as one word, what that means in words, and facts by name.

    With `error` its traceback follows. Keys and passwords are blotted out, whatever part of a line they are in.
    """
    if _LOG.isEnabledFor(level):
        _LOG.log(level, "%s", text, exc_info=error, extra={"event": event, "facts": facts})


class Seldom:
    """Lets through so many in a minute, and counts the others.

    Examples
    --------
    >>> seldom = Seldom(most=1, clock=lambda: 0.0)
    >>> seldom.left_out(), seldom.left_out(), seldom.left_out()
    (0, None, None)
    >>> seldom._clock = lambda: 60.0
    >>> seldom.left_out()
    2
    """

    def __init__(self, most: int = 10, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._since, self._through, self._left_out = clock(), 0, 0

    def left_out(self) -> int | None:
        """Return how many were left out since the last that was let through; None if this one is, too."""
        now = self._clock()
        if now - self._since >= 60.0:
            self._since, self._through = now, 0
        if self._through >= self._most:
            self._left_out += 1
            return None
        self._through += 1
        left_out, self._left_out = self._left_out, 0
        return left_out


def note_refusal(refused: Refused, scope: Mapping[str, Any], keys: Seldom, error: Exception | None = None) -> None:
    """Write a line for a refusal that an operator should know of, with the id that its client was told.

    Of the refusals of keys so many are written as `keys` lets through.
    """
    facts: dict[str, Any] = {"status": refused.status, "request": refused.request}
    facts |= {"method": scope["method"], "path": scope["path"]}
    if refused.status >= 500:
        level = logging.WARNING if refused.status == 503 else logging.ERROR
        note(level, refused.code, refused.detail, error=error, **facts)
    elif refused.status in _REFUSED_KEYS and (left_out := keys.left_out()) is not None:
        facts |= {"code": refused.code, "address": scope["client"][0] if scope.get("client") else ""}
        facts |= {"left_out": left_out} if left_out else {}
        note(logging.WARNING, "key_refused", refused.detail, **facts)


class JsonLines(logging.Formatter):
    """A line of JSON for each record, in ASCII.

    Examples
    --------
    >>> record = logging.LogRecord("armtriage.service", logging.INFO, "", 0, "%s", ("It answers.",), None)
    >>> record.created, record.event, record.facts = 0.0, "started", {"port": 8000}
    >>> print(JsonLines().format(record))
    {"time": "1970-01-01T00:00:00.000Z", "level": "info", "event": "started", "text": "It answers.", "port": 8000}
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line = _head(record) | getattr(record, "facts", {})
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return _without_secrets(json.dumps(line, default=str))


class TextLines(logging.Formatter):
    """A line of text for each record; a traceback follows on lines of its own.

    Examples
    --------
    >>> record = logging.LogRecord("armtriage.service", logging.INFO, "", 0, "%s", ("The server answers.",), None)
    >>> record.created, record.event, record.facts = 0.0, "started", {"port": 8000}
    >>> print(TextLines().format(record))
    1970-01-01T00:00:00.000Z info started: The server answers. port=8000
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        head = _head(record)
        facts = "".join(f" {name}={_plain(value)}" for name, value in getattr(record, "facts", {}).items())
        line = f"{head['time']} {head['level']} {head['event']}: {_on_one_line(head['text'])}{facts}"
        if record.exc_info:
            line = f"{line}\n{self.formatException(record.exc_info)}"
        return _without_secrets(line)


def _head(record: logging.LogRecord) -> dict[str, Any]:
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return {
        "time": f"{at}.{int(record.created * 1000) % 1000:03d}Z",
        "level": record.levelname.lower(),
        "event": getattr(record, "event", record.name),
        "text": record.getMessage(),
    }


def _on_one_line(text: str) -> str:
    return text if text.isprintable() and text.isascii() else json.dumps(text)[1:-1]


def _plain(value: object) -> str:
    text = str(value)
    return text if text and text.isascii() and text.isprintable() and not set(text) & set(' "=') else json.dumps(text)


def _without_secrets(text: str) -> str:
    return _SECRETS.sub(lambda found: f"{found[1] or found[2]}***", text)


class _Aside(logging.Handler):
    """Hands lines to a thread: a reader of standard error that stops reading must not stop the server."""

    def __init__(self, descriptor: int = 2) -> None:
        super().__init__()
        self._descriptor, self._lost = descriptor, 0
        self._lines: queue.Queue[bytes | None] = queue.Queue(_WAITING)
        self._thread = threading.Thread(target=self._work, name="armtriage-log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._lines.put_nowait(self._bytes(record))
        except queue.Full:
            self._lost += 1
        except Exception:
            self.handleError(record)

    def _bytes(self, record: logging.LogRecord) -> bytes:
        return self.format(record).encode("ascii", "backslashreplace") + b"\n"

    def _work(self) -> None:
        while (line := self._lines.get()) is not None:
            lost, self._lost = self._lost, 0
            if lost:
                record = logging.makeLogRecord({"levelname": "WARNING", "msg": "Standard error was not read."})
                record.event, record.facts = "lines_lost", {"lines": lost}
                line += self._bytes(record)
            with contextlib.suppress(OSError):  # closed: there is nowhere to say it
                while line:
                    line = line[os.write(self._descriptor, line) :]

    def close(self) -> None:
        with contextlib.suppress(queue.Full):
            self._lines.put_nowait(None)
            self._thread.join(_PATIENCE)
        super().close()


@contextlib.contextmanager
def writing(form: str, level: str, descriptor: int = 2) -> Iterator[None]:
    """Let everything that is logged go to standard error, as text or as JSON, from a level on."""
    if form not in FORMS:
        raise ValueError(f"log must be one of {', '.join(FORMS)}, got {form!r}")
    if level not in LEVELS:
        raise ValueError(f"log-level must be one of {', '.join(LEVELS)}, got {level!r}")
    handler = _Aside(descriptor)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(level.upper())
    try:
        yield
    finally:
        root.setLevel(before)
        root.removeHandler(handler)
        handler.close()

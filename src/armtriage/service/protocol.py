"""How connections are read: in our own way where it fits the uvicorn that is installed, else in uvicorn's."""

from __future__ import annotations

import inspect
import logging
from importlib import import_module
from importlib.metadata import version
from typing import Any

from armtriage.service.logs import note

WHOLE = "armtriage.whole"
"""What the scope of a request has when all of its body is there."""

_RELIED_ON = {
    "__init__": "self config server_state app_state _loop",
    "connection_made": "self transport",
    "connection_lost": "self exc",
    "data_received": "self data",
    "eof_received": "self",
    "on_header": "self name value",
    "on_headers_complete": "self",
    "on_message_begin": "self",
    "on_message_complete": "self",
    "on_response_complete": "self",
    "on_url": "self url",
    "send_400_response": "self msg",
}
"""What `connection` overrides or calls of a class that uvicorn keeps to itself, with its parameters."""


def protocol() -> Any:
    """Return what uvicorn reads connections with: our own class, or the name of one of its own, with a warning."""
    try:
        parent = import_module("uvicorn.protocols.http.httptools_impl").HttpToolsProtocol
        for name, parameters in _RELIED_ON.items():
            if " ".join(inspect.signature(getattr(parent, name)).parameters) != parameters:
                raise TypeError(f"HttpToolsProtocol.{name} of uvicorn is not as it was")
        return import_module("armtriage.service.connection").NewConnection
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        text = (
            f"uvicorn {version('uvicorn')} differs from what is tested ({error}): it reads connections in its own way"
        )
        note(logging.WARNING, "uvicorn", f"{text}, without limits on silence and on the heads of requests")
        return "auto"

"""The decision service: policies over HTTP, with a log that never loses what it acknowledged.

`Client` and `AsyncClient` need nothing else; the server needs the extra ``serve``, and ``postgres`` for that store.
"""

from armtriage.service.client import AsyncClient, Client, ServedDecision, ServiceError, Unavailable
from armtriage.service.read_log import is_store, read_log

__all__ = ["AsyncClient", "Client", "ServedDecision", "ServiceError", "Unavailable", "is_store", "read_log"]

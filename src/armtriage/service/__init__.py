"""The decision service: policies over HTTP, with a log that never loses what it acknowledged.

`Client` and `AsyncClient` need nothing else; the server needs the extra ``serve``, and ``postgres`` for that store.
"""

__all__: list[str] = []

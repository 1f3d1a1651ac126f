"""Keys: who may ask the service for what, and how often."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from math import ceil

from armtriage.service import clock
from armtriage.service.refusal import Refused
from armtriage.service.stores import KeyRow

SCOPES = ("decide", "reward", "read", "admin")
"""What a key can be good for."""

RATE = 100.0
"""Requests a second of a key, unless it was made for more."""

_GUESSES = 10  # wrong keys that an address may send in a minute
_ALL_GUESSES = 100  # and all together: a client behind a proxy, or one that says so, has as many addresses as it likes
_BEARER = b"Bearer "


def new_key(scopes: Iterable[str], label: str = "", rate: float = RATE) -> tuple[str, KeyRow]:
    """Return a new key, which is never shown again, and what is stored of it.

    Examples
    --------
    >>> text, row = new_key(["decide", "reward"])
    >>> text.startswith(f"at_{row.id}_"), row.scopes
    (True, 'decide,reward')
    """
    wanted = list(dict.fromkeys(scopes))
    if not wanted or any(one not in SCOPES for one in wanted):
        raise ValueError(f"scopes must be some of {', '.join(SCOPES)}, got {', '.join(wanted) or 'none'}")
    if not label.isprintable():  # half a surrogate could not even be stored
        raise ValueError(f"label must be text that can be printed, got {label!r}")
    if not 0 <= rate < float("inf"):
        raise ValueError(f"rate must be a number of requests a second, 0 for any number, got {rate!r}")
    name = secrets.token_hex(4)
    text = f"at_{name}_{secrets.token_urlsafe(32)}"
    return text, KeyRow(name, _hash(text.encode()), ",".join(wanted), label, rate, clock.wall(), None)


def _named(header: bytes) -> str:
    """Return the id of a key in a header, without its secret."""
    found = re.match(rb"Bearer (at_[0-9a-f]{8}_)", header)
    return f"{found[1].decode()}..." if found else "of the header Authorization (Bearer at_...)"


def _hash(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


class AccessControl:
    """Lets requests in by their keys; as long as there has never been a key, everybody.

    Examples
    --------
    >>> text, row = new_key(["read"])
    >>> access = AccessControl()
    >>> access.update([row])
    >>> access.admit(f"Bearer {text}".encode(), "read", "127.0.0.1")
    >>> access.admit(f"Bearer {text}".encode(), "admin", "127.0.0.1")
    Traceback (most recent call last):
    armtriage.service.refusal.Refused: forbidden: The key may not do this: at_..._... has read, not admin.
    """

    def __init__(self) -> None:
        self._keys: dict[bytes, tuple[KeyRow, frozenset[str]]] = {}
        self._allowed: dict[str, tuple[float, float]] = {}  # by key: requests that it may make, and when that was
        self._wrong: Counter[str] = Counter()  # by address: wrong keys of this minute
        self._since = 0.0  # when it began
        self.open = True

    def update(self, keys: Sequence[KeyRow]) -> None:
        """Take over the keys of the store."""
        self.open = not keys
        self._keys = {one.id.encode(): (one, frozenset(one.scopes.split(","))) for one in keys if one.revoked is None}
        self._allowed = {name: had for name, had in self._allowed.items() if name.encode() in self._keys}

    def admit(self, header: bytes | None, scope: str, address: str) -> None:
        """Refuse a request whose key is missing, wrong, for other things, or used too often."""
        if self.open:
            return
        row, scopes = self._known(header, address)
        if scope not in scopes:
            has = f"has {' and '.join(sorted(scopes))}, not {scope}"
            raise Refused("forbidden", f"The key may not do this: at_{row.id}_... {has}.")
        if row.rate:
            now = time.monotonic()
            most = max(row.rate, 1.0)
            left, since = self._allowed.get(row.id, (most, now))
            left = min(left + (now - since) * row.rate, most)
            if left < 1.0:
                text = f"The key at_{row.id}_... may make {row.rate:g} requests a second; try again later."
                raise Refused("too_many", text, retry=ceil(min((1.0 - left) / row.rate, 3600.0)))
            self._allowed[row.id] = left - 1.0, now

    def holds(self, header: bytes | None, scope: str) -> bool:
        """Whether a key that was let in would be let in now: it may have been revoked."""
        found = self._find(header)
        return self.open or (found is not None and scope in found[1])

    def name_of(self, header: bytes | None) -> str:
        """Return by what name a key is known in the log: its label and its id; nothing, if it is no key."""
        found = self._find(header)
        return "" if self.open or found is None else f"{found[0].label} at_{found[0].id}".strip()

    def holder(self, header: bytes, address: str) -> KeyRow:
        """Return the key of a header; refuse one that is not known."""
        return self._known(header, address)[0]

    def _find(self, header: bytes | None) -> tuple[KeyRow, frozenset[str]] | None:
        key = header[len(_BEARER) :] if header is not None and header.startswith(_BEARER) else b""
        found = self._keys.get(key[3:11]) if key.startswith(b"at_") else None
        # An unknown key takes as long as a wrong one.
        same = hmac.compare_digest(_hash(key), bytes(32) if found is None else found[0].sha256)
        return found if same else None

    def _known(self, header: bytes | None, address: str) -> tuple[KeyRow, frozenset[str]]:
        found = self._find(header)
        if found is not None:
            return found
        self._count_guess(address)
        # Whether there is a key of this id is not said.
        if header is None:
            raise Refused("unauthorized")
        raise Refused("unauthorized", f"The key {_named(header)} is not known; it may have been revoked.")

    def _count_guess(self, address: str) -> None:
        now = time.monotonic()
        if now - self._since > 60.0:
            self._since = now
            self._wrong.clear()
        if self._wrong[address] >= _GUESSES:
            raise Refused("too_many", "Too many wrong keys from this address.", retry=60)
        if self._wrong.total() >= _ALL_GUESSES:
            raise Refused("too_many", "Too many wrong keys.", retry=60)
        self._wrong[address] += 1

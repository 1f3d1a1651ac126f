"""Who looks: a key that was given once stays in a cookie, which scripts cannot read and other pages cannot send."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import urlsplit

MARK = b"x-armtriage"
"""The header without which a cookie changes nothing: pages from elsewhere cannot set it."""

LONGEST = 12 * 3600
"""Seconds for which a browser keeps the cookie."""

_NAME = "armtriage"
_KEY = re.compile(r"at_[0-9a-f]{8}_[A-Za-z0-9_-]{43}")
_COOKIE = re.compile(rb"(?:^|;\s*)" + _NAME.encode() + rb"=(at_[0-9a-f]{8}_[A-Za-z0-9_-]{43})(?:$|;)")
_LOCAL = ("127.0.0.1", "localhost", "::1")


@lru_cache(maxsize=256)
def is_local(place: bytes) -> bool:
    """Whether a header names this machine, with or without a port; what cannot be read does not.

    Examples
    --------
    >>> [is_local(one) for one in (b"localhost:8000", b"[::1]", b"localhost.example.org", b"[::1", b"")]
    [True, True, False, False, False]
    """
    try:
        return urlsplit(f"//{place.decode('ascii', 'replace')}").hostname in _LOCAL
    except ValueError:
        return False


def key_of(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """Return the key that a request's cookie holds.

    Examples
    --------
    >>> key_of([(b"cookie", b"a=1; armtriage=at_0a1b2c3d_" + b"x" * 43)])[:12]
    b'at_0a1b2c3d_'
    >>> key_of([(b"cookie", b"armtriage=anything")]) is None
    True
    """
    for name, value in headers:
        if name == b"cookie" and (found := _COOKIE.search(value)):
            return found[1]
    return None


def cookie(key: str, secure: bool) -> bytes | None:
    """Return the header's value that lets a browser keep a key; None for what is no key."""
    if not _KEY.fullmatch(key):
        return None
    more = "; Secure" if secure else ""
    return f"{_NAME}={key}; Path=/; HttpOnly; SameSite=Strict; Max-Age={LONGEST}{more}".encode()


def no_cookie() -> bytes:
    """Return the header's value that lets a browser forget the key."""
    return f"{_NAME}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0".encode()

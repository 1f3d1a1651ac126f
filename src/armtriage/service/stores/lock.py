"""The lock on a store's file: one server may have it at a time, under whatever name."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from armtriage.service.stores.store import StoreError

OWNER_ONLY = 0o600
"""The mode of a store and of all that is made beside it; SQLite gives its journal that of the file."""

_OWNED: set[tuple[int, int]] = set()  # files that this process serves, by device and inode


class FileLock:
    """Holds a store's file for this process, and makes it if it is not there.

    The file beside the store says who has it. On Linux the store itself is locked as well, since it may have several
    names, and the file beside it may be removed; on other systems that lock would keep SQLite out.
    """

    def __init__(self, path: Path) -> None:
        real = path.resolve()
        self._held: list[int] = []
        self._file: tuple[int, int] | None = None
        try:
            beside = self._open(real.with_name(f"{real.name}.lock"))
            if not (self._take(beside) and self._own(real)):
                raise StoreError(f"{path} is served by {_holder(beside)}; one server may have it at a time")
            os.truncate(beside, 0)
            os.lseek(beside, 0, os.SEEK_SET)
            since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            os.write(beside, json.dumps({"pid": os.getpid(), "since": since}).encode())
        except OSError as error:
            self.close()
            raise StoreError(f"{error.filename or path} cannot be opened: {error.strerror}") from None
        except StoreError:
            self.close()
            raise

    def close(self) -> None:
        """Let others have the store, when SQLite has closed it: this would drop SQLite's own locks."""
        while self._held:
            os.close(self._held.pop())
        if self._file is not None:
            _OWNED.discard(self._file)
            self._file = None

    def _open(self, path: Path) -> int:
        self._held.append(os.open(path, os.O_RDWR | os.O_CREAT, OWNER_ONLY))
        return self._held[-1]

    def _own(self, real: Path) -> bool:
        """Lock the file itself; False if another process has it, or this one."""
        if sys.platform != "linux":
            if not real.exists():
                os.close(self._open(real))
                self._held.pop()
            return True
        # To open what this process serves already would drop the locks of SQLite when it is closed.
        if real.exists() and _identity(real.stat()) in _OWNED:
            return False
        store = self._open(real)
        if not self._take(store):
            return False
        self._file = _identity(os.fstat(store))
        _OWNED.add(self._file)
        return True

    @staticmethod
    def _take(number: int) -> bool:
        """Lock an open file; False if another process has it."""
        try:
            if os.name == "posix":
                import fcntl

                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            else:
                import msvcrt

                os.lseek(number, 2**20, os.SEEK_SET)  # far behind what is written, which others must be able to read
                msvcrt.locking(number, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        except OSError:
            return False
        return True


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _holder(beside: int) -> str:
    """Return who has a store, by what stands beside it."""
    os.lseek(beside, 0, os.SEEK_SET)
    try:
        said = json.loads(os.read(beside, 1000))
        return f"process {said['pid']}, since {said['since']}"
    except (ValueError, KeyError, TypeError):
        return "another process"

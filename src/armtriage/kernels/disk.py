"""What is kept on disk from one process to the next: in a folder that no other user can write to, with a checksum.

Machine code that lies there is executed, so a file that another user may have written, or a bit that has flipped, must
never be read. Any file may be lost at any time.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import stat
import tempfile
import time
from pathlib import Path

_KEEP_SECONDS = 30 * 24 * 3600
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


@functools.cache
def cache_folder() -> Path | None:
    """Return the folder of machine code, which is made if need be; None if there is no safe place for one.

    It stands in ``NUMBA_CACHE_DIR``, the user's cache folder, or the one for passing files, whichever is the first that
    can be used. No other user may write to it, or rename a folder above it, since what lies there will be executed.
    """
    own = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    user = os.getuid() if hasattr(os, "getuid") else "user"
    for base in (os.environ.get("NUMBA_CACHE_DIR"), own, os.path.join(tempfile.gettempdir(), f"armtriage-{user}")):
        if not base:
            continue
        try:
            folder = (Path(base) / "armtriage" / "kernels").resolve()
            for one in (*reversed(folder.parents), folder):
                one.mkdir(exist_ok=True, mode=0o700)
            usable = _is_safe(folder) and os.access(folder, os.W_OK)
        except (OSError, RuntimeError):
            continue
        if usable:
            return folder
    return None


def _is_safe(folder: Path) -> bool:
    """Whether no other user, but for the administrator, can write to the folder or put another one in its place."""
    if not hasattr(os, "getuid"):
        return True
    if not all(_is_ours(one.stat()) for one in (folder, folder.parent)):
        return False
    for one in folder.parent.parents:
        status = one.stat()
        # In a sticky folder, as for temporary files, others can neither rename nor remove what is ours.
        others = status.st_mode & _OTHERS_WRITE and not status.st_mode & stat.S_ISVTX
        if others or status.st_uid not in (0, os.getuid()):
            return False
    return True


def _is_ours(status: os.stat_result) -> bool:
    return not hasattr(os, "getuid") or (status.st_uid == os.getuid() and not status.st_mode & _OTHERS_WRITE)


def kept(path: Path) -> bytes | None:
    """Return what was kept in a file; None if there is none, or if it is damaged or may belong to another user."""
    try:
        with open(path, "rb") as file:
            ours, whole = _is_ours(os.fstat(file.fileno())), file.read()
        checksum, content = whole[:32], whole[32:]
        if not ours or hashlib.sha256(content).digest() != checksum:
            path.unlink()
            return None
    except OSError:
        return None
    return content


def keep(path: Path, content: bytes) -> None:
    """Keep something in a file, which others see whole or not at all; where nothing can be written, nothing is kept."""
    passing = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        passing.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        with open(os.open(passing, flags, 0o600), "wb") as file:
            file.write(hashlib.sha256(content).digest() + content)
        os.replace(passing, path)
    except OSError:
        with contextlib.suppress(OSError):
            passing.unlink(missing_ok=True)


def prune(folder: Path) -> None:
    """Remove what has not been used for a month."""
    oldest = time.time() - _KEEP_SECONDS
    for one in (*folder.glob("*.code*"), *folder.glob("sources*.json*")):
        with contextlib.suppress(OSError):
            if one.stat().st_mtime < oldest:
                one.unlink()

"""Files of arrays and JSON that are written whole or not at all, and that notice any damage. Never pickle."""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage.errors import DamagedFile

__all__ = ["read_archive", "write_archive"]

_MAGIC = b"armtriage archive 1\n"
_DIGEST = hashlib.sha256().digest_size


def write_archive(path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write atomically: the bytes reach the disk under another name in the same folder, which is then renamed."""
    target = Path(path)
    buffer = io.BytesIO()
    text = np.frombuffer(json.dumps(header, allow_nan=False).encode(), np.uint8)
    np.savez(buffer, allow_pickle=False, **{f"array.{name}": array for name, array in arrays.items()}, header=text)
    payload = buffer.getbuffer()
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + hashlib.sha256(payload).digest())
            file.write(payload)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where the system lets a folder be opened."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read_archive(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the header and the arrays; raise `DamagedFile` for anything that `write_archive` did not write."""
    content = Path(path).read_bytes()
    if not content.startswith(_MAGIC):
        raise DamagedFile(f"{os.fspath(path)} is not a file that armtriage saved")
    digest, payload = content[len(_MAGIC) : len(_MAGIC) + _DIGEST], content[len(_MAGIC) + _DIGEST :]
    if hashlib.sha256(payload).digest() != digest:
        raise DamagedFile(f"{os.fspath(path)} is damaged: its contents do not match its checksum")
    try:
        with np.load(io.BytesIO(payload), allow_pickle=False) as archive:
            header = json.loads(archive["header"].tobytes())
            arrays = {name[6:]: archive[name] for name in archive.files if name.startswith("array.")}
    except (KeyError, ValueError, zipfile.BadZipFile) as error:
        raise DamagedFile(f"{os.fspath(path)} is damaged: {error}") from error
    return header, arrays

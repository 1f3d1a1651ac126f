"""Files that are written whole or not at all; those of arrays and JSON notice any damage. Never pickle."""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import re
import secrets
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage.errors import DamagedFile

__all__ = ["HOST", "read_archive", "write_archive", "write_whole"]

HOST = re.sub(r"[^A-Za-z0-9]+", "_", platform.node()) or "host"
"""The name of this machine, as part of the name of a file."""
_MAGIC = b"armtriage archive 1\n"
_DIGEST = hashlib.sha256().digest_size


def write_whole(target: Path, *parts: bytes | memoryview, durable: bool) -> None:
    """Write a file that has its name only when it is whole; until then it is ``.NAME.TOKEN.HOST-PROCESS.tmp``.

    Parameters
    ----------
    target : path
        The file; one that is there is replaced.
    *parts : bytes
        What it holds.
    durable : bool
        Wait until it is on the disk, so that no power cut can take it back.
    """
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.{HOST}-{os.getpid()}.tmp")
    try:
        with open(temporary, "xb") as file:
            for part in parts:
                file.write(part)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    if durable:
        _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where the system lets a folder be opened."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_archive(path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a header and arrays, whole or not at all."""
    buffer = io.BytesIO()
    text = np.frombuffer(json.dumps(header, allow_nan=False).encode(), np.uint8)
    np.savez(buffer, allow_pickle=False, **{f"array.{name}": array for name, array in arrays.items()}, header=text)
    payload = buffer.getbuffer()
    write_whole(Path(path), _MAGIC, hashlib.sha256(payload).digest(), payload, durable=True)


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

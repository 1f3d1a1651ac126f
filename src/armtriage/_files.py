"""Files that are written whole or not at all; those of arrays and JSON notice any damage. Never pickle."""

from __future__ import annotations

import errno
import glob
import hashlib
import io
import json
import math
import os
import platform
import re
import secrets
import stat
import struct
import time
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage.errors import DamagedFile

HOST = re.sub(r"[^A-Za-z0-9]+", "_", platform.node()) or "host"
"""The name of this machine, as part of the name of a file."""
_TEMPORARY = re.compile(rf"\..*\.{HOST}-(\d+)\.tmp")
_DAY = 24 * 3600
_MAGIC = b"armtriage archive 1\n"
_DAMAGE = (KeyError, TypeError, ValueError, EOFError, RuntimeError, OverflowError, struct.error)
_DIGEST = hashlib.sha256().digest_size


def write_whole(target: Path, *parts: bytes | memoryview, durable: bool, through_link: bool = True) -> Path:
    """Write a file that has its name only when it is whole; until then it is ``.NAME.TOKEN.HOST-PROCESS.tmp``.

    Return the file that was written, which a link leads to.

    Parameters
    ----------
    target : path
        The file; one that is there is replaced and keeps its permissions.
    *parts : bytes
        What it holds.
    durable : bool
        Wait until it is on the disk, so that no power cut can take it back.
    through_link : bool
        Whether a link leads to the file; else the link itself is replaced, and what it leads to stays as it is.
    """
    if through_link:
        target = Path(os.path.realpath(target))
    mode = _mode(target)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.{HOST}-{os.getpid()}.tmp")
    try:
        # Until it has the permissions of the old file, no one else may read it.
        first = 0o666 if mode is None else 0o600
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, first)) as file:
            if mode is not None and hasattr(os, "fchmod"):
                os.fchmod(file.fileno(), mode)
            for part in parts:
                file.write(part)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, FileNotFoundError) and not target.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, "There is no such folder", str(target.parent)) from None
        raise
    if durable:
        _sync_folder(target.parent)
    return target


def _mode(target: Path) -> int | None:
    """Return the permissions of a file that is to be replaced, or None if there is none."""
    try:
        status = target.lstat()
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(status.st_mode):
        return None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(f"{target} is a folder, and not replaced by a file")
    if not stat.S_ISREG(status.st_mode):
        raise FileExistsError(f"{target} is no regular file, and not replaced by one")
    return stat.S_IMODE(status.st_mode)


def sweep(folder: Path, name: str = "*") -> None:
    """Remove temporary files, of one file or all, that processes which are no more have left in a folder."""
    pattern = f".{name if name == '*' else glob.escape(name)}.*.tmp"
    for one in folder.glob(pattern):
        own = _TEMPORARY.fullmatch(one.name)
        with suppress(FileNotFoundError):
            if (own and not _is_alive(int(own[1]))) or time.time() - one.stat().st_mtime > _DAY:
                one.unlink()


def _is_alive(process: int) -> bool:
    """Whether a process of this machine is there; where one cannot ask without ending it, all are."""
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


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
    target = write_whole(Path(path), *_packed(header, arrays), durable=True)
    sweep(target.parent, target.name)


def pack_archive(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return what `write_archive` writes."""
    return b"".join(_packed(header, arrays))


def _packed(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> tuple[bytes | memoryview, ...]:
    buffer = io.BytesIO()
    text = np.frombuffer(json.dumps(header, allow_nan=False).encode(), np.uint8)
    np.savez(buffer, allow_pickle=False, **{f"array.{name}": array for name, array in arrays.items()}, header=text)
    payload = buffer.getbuffer()
    return _MAGIC, hashlib.sha256(payload).digest(), payload


def read_archive(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the header and the arrays; raise `DamagedFile` for anything that `write_archive` did not write."""
    return unpack_archive(os.fspath(path), Path(path).read_bytes())


def unpack_archive(what: str, content: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the header and the arrays of what `pack_archive` returned, or of a file of this name."""
    if not content.startswith(_MAGIC):
        raise DamagedFile(f"{what} is not a file that armtriage saved")
    digest, payload = content[len(_MAGIC) : len(_MAGIC) + _DIGEST], content[len(_MAGIC) + _DIGEST :]
    if hashlib.sha256(payload).digest() != digest:
        raise DamagedFile(f"{what} is damaged: its contents do not match its checksum")
    try:
        entries = _entries(payload)
        header = json.loads(entries.pop("header").tobytes())
        if not isinstance(header, dict):
            raise ValueError(f"its header must be a mapping, got {type(header).__name__}")
        if strangers := [name for name in entries if not name.startswith("array.")]:
            raise ValueError(f"it must have no {strangers[0]!r}")
    except (*_DAMAGE, zipfile.BadZipFile) as error:
        raise DamagedFile(f"{what} is damaged: {str(error) or type(error).__name__}") from error
    return header, {name.removeprefix("array."): array for name, array in entries.items()}


def _entries(payload: bytes) -> dict[str, NDArray[Any]]:
    """Return the arrays of an uncompressed archive; none takes more memory than the file has bytes for it."""
    arrays: dict[str, NDArray[Any]] = {}
    with zipfile.ZipFile(io.BytesIO(payload)) as archive:
        for entry in archive.infolist():
            name = entry.filename.removesuffix(".npy")
            if name in arrays or name == entry.filename or entry.is_dir():
                raise ValueError(f"it must hold different arrays, got {entry.filename!r}")
            if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
                raise ValueError(f"{name} must not be compressed")
            arrays[name] = _array(name, archive.read(entry))
    return arrays


def _array(name: str, content: bytes) -> NDArray[Any]:
    file = io.BytesIO(content)
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError(f"{name} must be an array of format 1.0")
    shape, by_column, kind = np.lib.format.read_array_header_1_0(file)
    if kind.kind not in "biufU" or kind.hasobject or kind.fields is not None or not kind.isnative:
        raise ValueError(f"{name} must hold numbers or text, got {kind}")
    data = content[file.tell() :]
    if min(shape, default=0) < 0 or math.prod(shape) * kind.itemsize != len(data):
        raise ValueError(f"{name} must have the {shape} entries that it says")
    if kind.kind == "b" and max(data, default=0) > 1:
        raise ValueError(f"{name} must hold 0 and 1 only")
    return np.frombuffer(data, kind).reshape(shape, order="F" if by_column else "C").copy()

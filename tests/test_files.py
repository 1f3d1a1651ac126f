"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from armtriage._files import write_whole


@pytest.mark.parametrize("durable", [False, True])
def test_file_holds_all_parts_and_replaces_what_was_there(durable: bool, tmp_path: Path) -> None:
    target = tmp_path / "file"
    for parts in ((b"first",), (b"one, ", b"two")):
        write_whole(target, *parts, durable=durable)
        assert target.read_bytes() == b"".join(parts)
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("error", [OSError(28, "No space left"), KeyboardInterrupt()])
def test_what_fails_leaves_the_old_file_and_nothing_else(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "file"
    write_whole(target, b"old", durable=False)

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(type(error)):
        write_whole(target, b"new", durable=False)
    assert [(one, one.read_bytes()) for one in tmp_path.iterdir()] == [(target, b"old")]

"""What is kept on disk: never another user's, never damaged."""

from __future__ import annotations

import os
import pickle
import stat
import tempfile
from pathlib import Path

import pytest

from armtriage.kernels import disk, jit
from armtriage.kernels.disk import cache_folder, keep, kept, prune

SOMEBODY = 20001
only_posix = pytest.mark.skipif(not hasattr(os, "getuid"), reason="folders have owners and modes elsewhere")
only_root = pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give files away")


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with `own` and `passing`, which are where a cache may be, and nothing else is."""
    for name in ("own", "passing"):
        (tmp_path / name).mkdir(mode=0o700)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "passing"))
    return tmp_path


def find() -> Path | None:
    return cache_folder.__wrapped__()


def test_the_folder_is_the_users_own(places: Path) -> None:
    found = find()
    assert found == places / "own" / "armtriage" / "kernels"
    if hasattr(os, "getuid"):
        assert stat.S_IMODE(found.stat().st_mode) == 0o700


@only_posix
@pytest.mark.parametrize("depth", ["own", "own/armtriage", "own/armtriage/kernels"])
@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_folder_is_left_alone_where_others_can_write_to_it_or_to_one_above(
    places: Path, depth: str, mode: int
) -> None:
    find()
    (places / depth).chmod(mode)
    assert find() == places / "passing" / f"armtriage-{os.getuid()}" / "armtriage" / "kernels"


@only_posix
def test_a_folder_for_all_is_safe_where_nobody_can_rename_what_is_anothers(places: Path) -> None:
    (places / "own").chmod(0o1777)
    assert find() == places / "own" / "armtriage" / "kernels"


@only_root
@pytest.mark.parametrize("depth", ["", "armtriage", "armtriage/kernels"])
def test_nothing_is_kept_in_a_folder_that_another_user_made_first(places: Path, depth: str) -> None:
    (places / "own").chmod(0o777)
    first = places / "passing" / f"armtriage-{os.getuid()}"
    (first / "armtriage" / "kernels").mkdir(parents=True)
    os.chown(first / depth, SOMEBODY, SOMEBODY)
    assert find() is None


@only_posix
def test_a_link_is_followed_before_its_folders_are_looked_at(places: Path) -> None:
    target = places / "target"
    target.mkdir(mode=0o777)
    target.chmod(0o777)
    (places / "own" / "armtriage").symlink_to(target)
    assert find() == places / "passing" / f"armtriage-{os.getuid()}" / "armtriage" / "kernels"


def test_without_a_safe_folder_the_person_who_waits_is_told_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(jit, "cache_folder", lambda: None)
    jit._Wait().begin("Greedy", 400)
    assert caplog.messages == [
        "armtriage: compiling Greedy, about 2 s, in every process: there is no folder to keep it safely"
    ]


def test_no_bit_of_a_file_can_flip_unseen(tmp_path: Path) -> None:
    path = tmp_path / "one.code"
    assert kept(path) is None
    keep(path, b"machine code")
    whole = path.read_bytes()
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        assert kept(path) is None
        assert not path.exists()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert kept(path) is None
    keep(path, b"machine code")
    assert kept(path) == b"machine code"
    assert os.listdir(tmp_path) == [path.name]


@only_posix
def test_a_file_that_others_may_have_written_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "one.code"
    keep(path, pickle.dumps(1))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o660)
    assert kept(path) is None
    assert not path.exists()


def test_where_nothing_can_be_written_nothing_is_kept(tmp_path: Path) -> None:
    keep(tmp_path / "missing" / "one.code", b"")
    assert os.listdir(tmp_path) == []


def test_what_was_not_used_for_a_month_is_removed(tmp_path: Path) -> None:
    for name in ("old.code", "new.code", "sources-old.json", "else"):
        keep(tmp_path / name, b"")
    for name in ("old.code", "sources-old.json", "else"):
        os.utime(tmp_path / name, (0.0, 0.0))
    prune(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["else", "new.code"]
    assert disk._KEEP_SECONDS == 30 * 24 * 3600

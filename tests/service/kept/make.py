"""Write the store that is kept for a version of the tables: ``python tests/service/kept/make.py FILE``, once."""

from __future__ import annotations

import asyncio
import sqlite3
import sys

from service.calls import served


async def main(file: str) -> None:
    """Decide and tell, so that every kind of event and of stray is there."""
    async with served(file) as call:
        await call.make()
        for number in range(12):
            made = await call.decide(id=f"v{number}", **({"exclude": ["tea"]} if number % 3 == 0 else {}))
            if number % 2:
                await call.reward(f"v{number}", hits=made["arms"][:1])
            elif number % 4:
                await call.reward(f"v{number}", {made["arms"][0]: 0.5}, id="a")
        await call.reward("v1", {name: 1 for name in made["arms"] if name in (await call.decide(id="v1"))["arms"]})
        await call.reward("nobody", {"tea": 1})
        await call.patch("/v1/policies/slate/arms", json={"add": ["rye"], "retire": ["jam"]})
        await call.patch("/v1/policies/slate", json={"status": "paused"})
        await call.patch("/v1/policies/slate", json={"status": "running"})
        await call.decide(id="after")
        await call.make(name="linear", arms=["a", "b", "c"], budget=1, dimension=2, policy={"kind": "c2ucb"})
        made = await call.decide("linear", id="x", contexts={"a": [0.5, 0.5], "b": [0.1, 0.2]})
        await call.reward("x", {made["arms"][0]: 1}, name="linear", last=True)
    connection = sqlite3.connect(file)
    connection.execute("DELETE FROM snapshot")
    connection.commit()
    connection.execute("VACUUM")
    connection.execute("PRAGMA journal_mode=DELETE")
    connection.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

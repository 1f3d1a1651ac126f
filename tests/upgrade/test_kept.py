"""What an earlier version wrote: its store is served and its files are loaded, with the same states and decisions."""

import gzip
import json
import sqlite3
import zipfile
from pathlib import Path

import pytest

from armtriage import DamagedFile, Policy
from armtriage.service.upkeep import check
from service.calls import run, served
from upgrade.make import NOW, go_on, go_on_served, state_of, time_stands_at

KEPT = Path(__file__).parent / "b83ea6a"
FACTS = json.loads((KEPT / "facts.json").read_text(encoding="utf-8"))
ANOTHER_FORM = frozenset(
    {"GuardedLinear", "GuardedLinear-disjoint", "GuardedLinear-hybrid", "raw", "page", "sums", "sampler", "groups"}
    | {"KLUCB", "CombUCB1", "CombUCB1-set", "CombinatorialUCB", "Greedy", "UniformRandom", "Guard"}
    | {"ThompsonSampling", "ThompsonSampling-names", "ThompsonSampling-costs", "CombinatorialElimination"}
    | {"CombinatorialElimination-paper", "GuardedThompson", "GuardedThompson-names", "GuardedThompson-set"}
)
"""Policies whose state has another form since, so that its digest is another; what they decide is the same."""
DECIDES_OTHERWISE = frozenset({"GuardedLinear", "GuardedLinear-disjoint", "GuardedLinear-hybrid", "raw"})
"""Policies that go on by other rules since, so that the same state leads to other decisions."""
GONE = {"GuardedLinear-staged": "holds a GuardedHierarchical, not a Policy"}
"""Policies that no longer exist, and how their files are refused."""


def kept(name):
    """Return a policy that was saved."""
    with zipfile.ZipFile(KEPT / "policies.zip") as files:
        return files.read(f"{name}.armtriage")


@pytest.mark.parametrize("name", FACTS["saved"])
def test_kept_files_load_and_decide_the_same(name, tmp_path):
    facts = FACTS["saved"][name]
    file = tmp_path / "kept.armtriage"
    file.write_bytes(kept(name))
    if name in GONE:
        with pytest.raises(DamagedFile, match=GONE[name]):
            Policy.load(file)
        return
    policy = Policy.load(file)
    if name not in ANOTHER_FORM:
        assert policy.digest() == facts["digest"]
    again = Policy.from_bytes(policy.to_bytes())
    played = go_on(policy)
    assert played == facts["next"] or (name in DECIDES_OTHERWISE and len(played) == len(facts["next"]))
    assert go_on(again) == played


@pytest.fixture
def store(tmp_path):
    """The kept store, unpacked."""
    file = tmp_path / "decisions.db"
    with gzip.open(KEPT / "store.db.gz") as packed:
        file.write_bytes(packed.read())
    return str(file)


@pytest.mark.parametrize("snapshots", [True, False], ids=["from-snapshots", "from-the-log"])
def test_a_kept_store_is_served_with_the_same_answers_and_goes_on(store, snapshots):
    facts = FACTS["store"]
    connection = sqlite3.connect(store)
    assert connection.execute("SELECT count(DISTINCT policy) FROM snapshot").fetchone()[0] == len(facts["policies"])
    if not snapshots:
        connection.execute("DELETE FROM snapshot")
        connection.commit()
    connection.close()

    async def work():
        async with served(store) as call:
            call.headers["authorization"] = f"Bearer {facts['keys']['revoked']}"
            assert (await call.get("/v1/policies")).status_code == 401
            call.headers["authorization"] = f"Bearer {facts['keys']['good']}"
            problems, states = await check(call.service.store)
            assert problems == []
            for name, about in facts["policies"].items():
                wanted = {key: value for key, value in about.items() if key != "next"}
                found = await state_of(call, name)
                assert states[name]["digest"] == found["digest"]
                if name in ANOTHER_FORM:
                    del wanted["digest"], found["digest"]
                assert found == wanted
                played = await go_on_served(call, name)
                assert played == about["next"] or (name in DECIDES_OTHERWISE and len(played) == len(about["next"]))

    with time_stands_at(NOW + 10**9):
        run(work)


@pytest.mark.parametrize("name", ["guard", "pairs", "proposed-pairs"])
def test_guards_whose_books_had_other_forms_load_and_decide_the_same(name):
    folder = KEPT.parent / "894f75a"
    facts = json.loads((folder / "facts.json").read_text(encoding="utf-8"))[name]
    policy = Policy.load(folder / f"{name}.armtriage")
    again = Policy.from_bytes(policy.to_bytes())
    assert list(policy.account) == facts["account"]
    assert go_on(policy) == facts["next"]
    assert go_on(again) == facts["next"]

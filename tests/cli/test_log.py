"""The commands that read logs."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from armtriage import Greedy, SlateLog, UniformRandom, evaluate
from armtriage.cli import app
from armtriage.service import read_log
from service.calls import served

RUN = CliRunner()


@pytest.fixture
def clicks(tmp_path: Path) -> Path:
    """A file with a row for each arm of 400 decisions, of which arm 5 is best."""
    luck = random.Random(7)
    lines = ["number,arm,reward,inclusion"]
    for number in range(400):
        for arm in sorted(luck.sample(range(6), 2)):
            lines.append(f"{number},{arm},{int(luck.random() < 0.15 * (arm + 1))},{1 / 3}")
    path = tmp_path / "clicks.csv"
    path.write_text("\n".join(lines))
    return path


def test_evaluate_prints_sentences_and_what_is_missing(clicks: Path) -> None:
    done = RUN.invoke(app, ["evaluate", str(clicks), "--target", "4,5"])
    assert done.exit_code == 0, done.output
    assert done.output.startswith("Playing arms 4 and 5 would have earned 1.")
    assert "eligible: all arms are taken to have been eligible" in done.output


def test_evaluate_prints_json(clicks: Path) -> None:
    done = RUN.invoke(app, ["evaluate", str(clicks), "--target", "4,5", "--estimator", "ips", "--once", "--json"])
    facts = json.loads(done.output)
    assert facts["estimator"] == "ips"
    assert facts["low"] < facts["value"] < facts["high"]
    assert not facts["anytime"]


def test_targets_are_compared_and_drawn(clicks: Path, tmp_path: Path) -> None:
    out = tmp_path / "compared.svg"
    given = ["--target", "new=4,5", "--target", "old=0,1", "--out", str(out)]
    done = RUN.invoke(app, ["evaluate", str(clicks), *given])
    assert "'new' would have been best" in done.output
    assert out.read_text().startswith("<?xml")


def test_a_saved_policy_is_a_target(clicks: Path, tmp_path: Path) -> None:
    policy = Greedy(6, budget=2, seed=7)
    policy.save(tmp_path / "policy.npz")
    done = RUN.invoke(app, ["evaluate", str(clicks), "--target", str(tmp_path / "policy.npz")])
    assert "Playing Greedy as it stands would have earned" in done.output


def test_names_of_a_folder_are_understood(tmp_path: Path) -> None:
    policy = UniformRandom(3, budget=1, names=["tea", "milk", "jam"], seed=7)
    with SlateLog(tmp_path / "log") as log:
        for _ in range(50):
            log.append(policy.ask(), [1.0], inclusion=1 / 3)
    done = RUN.invoke(app, ["evaluate", str(tmp_path / "log"), "--target", "tea"])
    assert done.output.startswith("Playing arm 'tea' would have earned")


def test_certify_prints_the_certificate(clicks: Path) -> None:
    assert "against always playing the best 2 arms" in RUN.invoke(app, ["certify", str(clicks)]).output
    assert json.loads(RUN.invoke(app, ["certify", str(clicks), "--json"]).output)["rounds"] == 400


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of a service with two policies, of which one has a floor; arms came and went."""
    path = tmp_path_factory.mktemp("store") / "decisions.db"
    luck = random.Random(7)

    async def work() -> None:
        async with served(str(path)) as call:
            await call.make(name="other")
            await call.make(budget=2, policy={"kind": "thompson", "logging_floor": 0.3})
            for number in range(600):
                if number == 300:
                    await call.patch("/v1/policies/slate/arms", json={"add": ["rum"], "retire": ["tea"]})
                made = await call.decide(id=f"v{number}")
                await call.reward(f"v{number}", hits=[name for name in made["arms"] if luck.random() < _MEANS[name]])

    asyncio.run(work())
    return path


_MEANS = {"tea": 0.1, "milk": 0.5, "jam": 0.3, "bread": 0.2, "egg": 0.4, "rum": 0.6}


def test_a_store_is_a_log(store: Path) -> None:
    given = [str(store), "--policy", "slate", "--target", "milk,egg", "--json"]
    done = RUN.invoke(app, ["evaluate", *given])
    assert done.exit_code == 0, done.output
    facts = json.loads(done.output)
    assert facts["low"] < 0.9 < facts["high"]
    assert facts["high"] - facts["low"] < 0.8
    assert (facts["rounds"], facts["missing"]) == (600, [])
    assert abs(facts["calibration_z"]) < 4
    refused = RUN.invoke(app, ["evaluate", str(store), "--policy", "slate", "--target", "rum"])
    assert "'rum', which was not eligible in decision 0" in refused.stderr
    certified = json.loads(RUN.invoke(app, ["certify", str(store), "--policy", "slate", "--json"]).output)
    assert certified["rounds"] == 600


def test_an_export_and_its_store_say_the_same(store: Path, tmp_path: Path) -> None:
    async def work() -> None:
        async with served(str(store)) as call:
            for place, after in enumerate((-1, 249)):
                answer = await call.get(
                    f"/v1/policies/slate/export.parquet?after={after}&limit={250 if not place else 9999}"
                )
                (tmp_path / f"page-{place}.parquet").write_bytes(answer.content)

    asyncio.run(work())
    pages, whole = SlateLog.read(tmp_path), read_log(str(store), "slate")
    assert whole.names == pages.names == ("tea", "milk", "jam", "bread", "egg", "rum")
    assert whole.missing == pages.missing == ()
    for one, other in zip(whole.counts(), pages.counts(), strict=True):
        assert np.array_equal(one, other)
    assert whole.counts().exposures.tolist() == [300, 600, 600, 600, 600, 300]
    found = evaluate(pages, {"milk": 1.0, "rum": 1.0}, restrict=True)
    assert found == evaluate(whole, {"milk": 1.0, "rum": 1.0}, restrict=True)
    assert found.low < 0.5 + 0.5 * 0.6 < found.high


def test_what_a_store_refuses(store: Path, tmp_path: Path) -> None:
    for arguments, message in (
        ([str(store)], "policy must be one of the store's, other, slate, got None"),
        ([str(store), "--policy", "page"], "policy must be one of the store's, other, slate, got 'page'"),
        ([str(store), "--policy", "slate", "--high", "2"], "reward_range must be left out: the store knows"),
        ([str(store), "--policy", "other"], "log must have a decision or more with rewards, got 0 without"),
        ([str(tmp_path), "--policy", "slate"], "policy must be left out"),
    ):
        done = RUN.invoke(app, ["evaluate", *arguments, "--target", "milk"])
        assert (done.exit_code, message in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "9"], "target has arm 9; arms are 0 to 5"),
        (["--target", "x"], "target must be arms as 3,8,11, or a file with a saved policy, got 'x'"),
        (["--target", "4", "--estimator", "replay"], "estimator must be one of dr, ips, snips, total, bracket"),
        (["--target", "a=4", "--target", "a=5"], "target must have different names"),
        (["--target", "4", "--high", "0.5"], "rewards must lie in [0, 0.5]"),
    ],
)
def test_what_is_refused_is_said_in_a_line(clicks: Path, arguments: list[str], message: str) -> None:
    done = RUN.invoke(app, ["evaluate", str(clicks), *arguments])
    assert done.exit_code == 2
    assert message in done.stderr


def test_a_log_that_is_not_there_is_refused() -> None:
    done = RUN.invoke(app, ["certify", "nowhere"])
    assert done.exit_code == 2
    assert "nowhere: There is no such log" in done.stderr

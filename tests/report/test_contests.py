"""Who loses least in each environment, and who is tied with it."""

import polars

from armtriage.report.contests import common, contests, winners


def test_ties_are_told_by_paired_differences(swept):
    made = contests(swept, None, 0.95)
    assert [one.environment for one in made] == [one.label for one in swept.manifest.environments]
    for one in made:
        regret = swept.traces(one.environment)
        means = {policy: trace.mean[-1] for policy, trace in regret.items()}
        assert one.best == min(means, key=means.get)
        for row in swept.differences(one.best).filter(polars.col("environment") == one.environment).to_dicts():
            assert (row["policy"] in one.ties) == (row["low"] <= 0)
        assert ("These runs cannot distinguish it from " in one.verdict) == bool(one.ties)
    assert {one.baseline for one in contests(swept, "random", 0.95)} == {"random"}


def test_winners_count_environments(swept):
    made = contests(swept, None, 0.95)
    rows = winners(made, ["comb_ucb1", "thompson", "random"])
    assert [row[1] for row in rows] == ["9", "9", "9"]
    assert sum(int(row[2]) for row in rows) == 9


def test_environments_of_one_kind_go_by_what_differs():
    shared, names = common(["a:x=1,y=2,z=3", "a:x=1,y=5,z=3"])
    assert (shared, list(names.values())) == ("a:x=1,z=3", ["y=2", "y=5"])
    for labels in (["a", "b"], ["a:x=1", "b:x=1"], ["a:x=1,y=2", "a:x=1"], ["a:x=1"], []):
        assert common(labels) == ("", {label: label for label in labels})

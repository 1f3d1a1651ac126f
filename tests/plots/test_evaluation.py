"""The picture of what targets would have earned."""

from __future__ import annotations

import pytest

from armtriage import SlateLog, compare, evaluate
from armtriage.plots import evaluation_chart


def test_evaluations_and_comparisons_are_drawn_and_others_refused_by_name() -> None:
    log = SlateLog.from_columns(arms=[[0], [1]] * 50, rewards=[[1], [0]] * 50, inclusion=[[0.5]] * 100, n_arms=2)
    one, both = evaluate(log, [0]), compare(log, {"old": [0], "new": [1]})
    assert len(evaluation_chart(one).get_yticklabels()) == 1
    assert len(evaluation_chart(both).get_yticklabels()) == 2
    for wrong in ([one], None, 3.0):
        with pytest.raises(
            TypeError, match=f"found must be what evaluate or compare returned, got {type(wrong).__name__}"
        ):
            evaluation_chart(wrong)  # type: ignore[arg-type]

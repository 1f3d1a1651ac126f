"""Request: candidates as bytes, bits and lists."""

from __future__ import annotations

import numpy as np
import pytest

from armtriage.policies.evidence import new_evidence
from armtriage.policies.request import (
    ALL,
    SOME,
    begin,
    count_candidates,
    expose,
    list_candidates,
    new_request,
)

UNIT = (0.0, 1.0, 0.0, 1.0)


@pytest.mark.plain
@pytest.mark.parametrize("n_arms", [1, 7, 8, 65, 300])
def test_candidates_are_the_same_in_every_form(n_arms: int) -> None:
    evidence = new_evidence(n_arms)
    request = new_request(evidence.counts.size, np.zeros(1, np.int64), np.uint64(3), 1, UNIT)
    rng, exposures = np.random.default_rng(n_arms), np.zeros(n_arms, np.int64)
    for number in range(20):
        mask = rng.random(n_arms) < rng.random()
        request.mask[:n_arms] = mask
        n = count_candidates(evidence, request)
        assert n == np.count_nonzero(mask)
        assert request.bits.tobytes() == np.packbits(mask).tobytes()
        epoch = ALL if number % 5 == 0 else SOME
        begin(request, number, epoch, n_arms if epoch == ALL else n)
        list_candidates(evidence, request)
        expected = np.arange(n_arms) if epoch == ALL else np.flatnonzero(mask)
        assert request.among[: request.n].tolist() == expected.tolist()
        exposures[expected] += 1
        request.size = 0
        expose(evidence, request)
        assert (evidence.exposures[:n_arms] + evidence.rounds).tolist() == exposures.tolist()

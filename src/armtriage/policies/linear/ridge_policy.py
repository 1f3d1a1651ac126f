"""RidgePolicy: the part of every linear policy that knows its regressions."""

from __future__ import annotations

from typing import Any

import numpy as np

from armtriage.kernels.record import Floats
from armtriage.policies.compiled import CompiledContextualPolicy
from armtriage.policies.facts import check_facts, within
from armtriage.policies.lock import locked


class RidgePolicy(CompiledContextualPolicy):
    """A contextual policy whose state has regressions in `ridge`, and notes which of them a reward belongs to."""

    @property
    @locked
    def weights(self) -> Floats:
        """The estimate of theta by all rewards so far: what a context's number adds to the mean reward, for each of d.

        It is a ridge regression's, shrunk towards 0, and comes without any promise.

        Examples
        --------
        >>> from armtriage import C2UCB
        >>> policy = C2UCB(2, dimension=2, budget=1, ridge=0.01)
        >>> for _ in range(50):
        ...     policy.tell(policy.ask([[1.0, 0.0], [0.0, 1.0]]), [0.5])
        >>> policy.weights.round(2)
        array([0.5, 0.5])
        """
        ridge = self._state.ridge
        gram, moment = ridge.gram + ridge.carry + ridge.recent, ridge.moment + ridge.moment_carry
        theta = np.linalg.solve(gram.sum(axis=0), moment.sum(axis=0))
        sign = -1.0 if self.direction == "minimize" else 1.0
        return np.asarray(sign * self.reward_unit / self.context_bound * theta)

    @locked
    def unsound(self) -> str:  # noqa: D102 - as in every policy
        ridge = self._state.ridge
        for name in ("gram", "recent", "inverse", "moment", "weights", "log_det"):
            if not np.isfinite(getattr(ridge, name)).all():
                return f"{name} of a regression"
        return "" if (ridge.inverse.diagonal(axis1=1, axis2=2) > 0.0).all() else "inverse of a regression"

    def _quantities(self) -> dict[str, Any]:
        """Return what the limits of facts name."""
        pulls = self.budget * self._asked
        return {"arms": self.n_arms, "asked": self._asked, "pulls": pulls, "counts": np.array([pulls, 1])}

    def _rebuild(self) -> None:
        check_facts(self._state, self._quantities())
        for notes in self._notes.values():
            within("notes", notes, -1, self._state.ridge.counts.shape[0] - 1)

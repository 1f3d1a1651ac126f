"""Cascades: visitors look from the top, stop at the first item that attracts them, and do not see the rest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from armtriage.errors import AlreadyTold, UnknownArm
from armtriage.kernels.record import Floats, Ints
from armtriage.policies.certified import CertifiedPolicy
from armtriage.policies.changing import locked
from armtriage.policies.delays import AgeingPolicy
from armtriage.policies.rewards import Told

if TYPE_CHECKING:
    from armtriage.arms import Name
    from armtriage.decisions import Decision


class CascadePolicy(AgeingPolicy, CertifiedPolicy):
    """The part of every `armtriage.Policy` that learns from the first click on a page."""

    if TYPE_CHECKING:

        def _find(self, decision: Decision | int) -> int: ...
        def _teach(self, number: int, arms: Ints, rewards: Floats) -> None: ...
        def _settle(self, told: Told) -> None: ...
        def _settle_complete(self) -> None: ...

    @locked
    def tell_cascade(
        self,
        decision: Decision | int,
        first: Name | None,
        *,
        order: ArrayLike | Iterable[Any] | None = None,
        in_turn: bool = False,
    ) -> None:
        """Learn from the first click on a page that is read from the top, and close the decision.

        The arms above the first click are told the least reward, it the best, and those below are unseen: nothing is
        learned of them, not even that their rewards are missing. For slates of arms that reveal themselves alone.

        Certificates then bound how many pages lost their click, if the probability that an arm attracts a visitor who
        looks at it does not depend on whether those above did. Visitors who are not equally keen break that: see
        `docs/positions.md`.

        Parameters
        ----------
        decision : Decision or int
            What `ask` returned, or its number.
        first : name or int, optional
            The arm that was clicked first; None if all were looked at and none was clicked.
        order : array_like, optional
            The arms as they were shown, from the top; by default ``decision.ranked``. A file does not keep that, so it
            must be given after a decision was loaded.
        in_turn : bool
            Whether intervals take the page only once all older decisions are closed. It must be True where pages
            without a click are closed later than others, as by `close_before`: clicks would count before their absence.

        Examples
        --------
        >>> from armtriage import ThompsonSampling
        >>> policy = ThompsonSampling(3, budget=3, names=["tea", "milk", "jam"], seed=7)
        >>> decision = policy.ask()
        >>> decision.ranked
        ('milk', 'tea', 'jam')
        >>> policy.tell_cascade(decision, "tea")
        >>> policy.tally.counts, policy.tally.sums
        (array([1, 1, 0]), array([1., 0., 0.]))
        """
        number = self._find(decision)
        if self.decisions is not None or not self._plain:
            kind = f"over {self.decisions!r}" if self.decisions is not None else "with arms that reveal others"
            raise NotImplementedError(f"tell_cascade is for slates of arms that reveal themselves alone, not {kind}")
        shown = self._in_order(self._open[number], order)
        clicked = None if first is None else self._roster.number(first, "first")
        if clicked is not None and clicked not in shown:
            raise UnknownArm(f"first has {self._roster.said(clicked)}, which the decision does not show")
        for arm in self._parts.get(number, {}):
            raise AlreadyTold(f"{self._roster.said(arm)} of decision {number} has been told already")
        seen = shown if clicked is None else shown[: shown.index(clicked) + 1]
        self._pass_by(number, {arm: float(arm == clicked) for arm in seen}, shown[len(seen) :], in_turn)

    def _in_order(self, decision: Decision, order: Any) -> list[int]:
        """Return the arms of a decision from the top."""
        if order is None:
            if "loaded" in vars(decision) and decision.arms.size > 1:
                raise ValueError(f"order must be given for decision {decision.number}, which was loaded, got None")
            return decision.ranked_arms.tolist()  # type: ignore[no-any-return]
        found = self._roster.numbers(order, "order")
        if not np.array_equal(np.sort(found), decision.arms):
            raise ValueError(f"order must have the arms of decision {decision.number}, got {order!r:.100}")
        return found.tolist()  # type: ignore[no-any-return]

    def _pass_by(self, number: int, rewards: dict[int, float], unseen: list[int], in_turn: bool) -> None:
        """Close a decision with unit rewards of arms that were looked at."""
        newer = self._roster.is_newer
        known = {arm: rewards[arm] for arm in sorted(rewards) if not newer(arm, number)}
        if in_turn:
            self._follow_delays()
            if self._delays is not None:
                self._delays.tell(number, known)
                self._delays.unsee(number)
            if known and self.learns_at_once:
                self._teach(number, np.array(list(known), np.int64), np.array(list(known.values())))
            self._parts[number] = rewards
            self._complete.add(number)
            self._settle_complete()
            return
        passed: Ints = np.array([arm for arm in sorted(unseen) if not newer(arm, number)], np.int64)
        if self._delays is not None:
            self._delays.tell(number, known)
            self._delays.close(number)
        self._parts.pop(number, None)
        arms, values = np.array(list(known), np.int64), np.array(list(known.values()), np.float64)
        self._settle(Told(number, arms, values, 0, passed, unseen=True))
        if self._complete:
            self._settle_complete()
        if self._alarm is not None or self._trusted is not None:
            self._heed()

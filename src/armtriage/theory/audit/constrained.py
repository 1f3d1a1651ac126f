"""What is claimed of elimination over decision sets: of Algorithm 5, printed and repaired, and of our own by oracle."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from armtriage.decisions import Decision
from armtriage.kernels.record import Floats, Ints
from armtriage.theory.audit.ledger import Claim
from armtriage.theory.audit.watch import (
    EVENT,
    HAIR,
    Mask,
    Watch,
    active_decisions,
    incumbent_of,
    intervals_of,
    least_of,
    offset_of,
)
from armtriage.theory.bounds.bound import Bound
from armtriage.theory.bounds.constrained import constrained_upper, oracle_upper
from armtriage.theory.bounds.graph import width_scale
from armtriage.theory.numbers import active_cover_number, cover_number

_PLAYED, _LITTLE, _REGRET = "played decisions are active", "a round loses little", "regret is below the bound"
_PAGE = "elimination over decision sets, step"
_BEST, _CLOSE, _END = "best decisions stay", "played decisions are close", "losses end"


class ListedWatch(Watch):
    """Follows a `ConstrainedElimination` that lists its family."""

    about: ClassVar[str] = "Algorithm 5"
    statements: ClassVar[tuple[Claim, ...]] = (
        Claim(_PLAYED, "Theorem 7, proof, regret of a layer; Algorithm 5 breaks it, erratum K1"),
        Claim(_BEST, "Theorem 7, proof, (1)", event=True),
        Claim("active decisions are close", "Theorem 7, proof, (2): 4S w(N)", event=True),
        Claim(_LITTLE, "Theorem 7, proof, regret of a layer: 4S w(N)", event=True),
        Claim(_END, "Theorem 7, proof: 4S w(N) below the gap, or one decision left", event=True),
        Claim(_REGRET, "Theorem 7; with the right kappa, erratum K2", event=True),
        Claim(EVENT, "Lemma 1"),
    )

    def begin(self, policy: Any, replication: int) -> None:
        """Begin a run of a fresh policy."""
        super().begin(policy, replication)
        self.active, self.least = active_decisions(policy), 0

    @cached_property
    def family(self) -> list[Ints]:
        """The decisions."""
        return list(self.recipe.decisions)

    @cached_property
    def places(self) -> dict[bytes, int]:
        """Where each decision stands among them."""
        return {one.tobytes(): place for place, one in enumerate(self.family)}

    @cached_property
    def gaps(self) -> Floats:
        """How much each decision is worse than the best."""
        # Decisions may differ in size, so what counts is how much each arm is above a reward of 0.
        assert self.means is not None
        values = self.means + offset_of(self.recipe)
        totals = np.array([values[one].sum() for one in self.family])
        return np.asarray(totals.max() - totals)

    @property
    def printed(self) -> tuple[str, ...]:
        """What the paper says of its own variant, though it can fail."""
        return (_PLAYED, _LITTLE, _END, _REGRET) if self.recipe.variant == "paper" else ()

    @cached_property
    def bound(self) -> Bound:
        """Theorem 7: as printed, or with the right kappa."""
        policy, printed = self.recipe, self.recipe.variant == "paper"
        cover = (cover_number if printed else active_cover_number)(policy.decisions, policy.graph)
        sizes = {**self.sizes("interval"), "exact": policy.cover == "exact", "gap": self.gap}
        return constrained_upper(**sizes, cover=cover, constants="printed" if printed else "repaired")

    @property
    def _reach(self) -> float:
        """How far an active decision can be from the best: S widths count 4 times."""
        return 4.0 * float(self.recipe.budget) * self.half_width(self.least)

    def asked(self, number: int, decision: Decision) -> None:
        """Check the decision against the active ones, and what it loses."""
        played, arms = self.places[decision.arms.tobytes()], decision.arms
        if not self.active.all():
            self.ledger.check(_PLAYED, arms, holds=bool(self.active[played]))
        if self.means is None:
            return
        loss, reach, bound = float(self.gaps[played]), self._reach, self.bound.value
        self.lost += loss
        if self.least > 0:
            self.check_loss(_LITTLE, arms, loss, reach)
        if reach < self.gap or self.active.sum() == 1:
            self.check_good(_END, arms, f"lost {loss:.4g}", loss <= HAIR)
        if bound is not None:
            self.check_bound(_REGRET, arms, bound)

    def told(self, number: int, decision: Decision) -> None:
        """Check the active decisions after an update."""
        self.note_intervals(decision.revealed)
        self.active, self.least = active_decisions(self.policy), least_of(self.policy)
        if self.means is None:
            return
        if not self.active.all():
            self._none(_BEST, (self.gaps <= HAIR) & ~self.active)
        if self.least > 0:
            self._none("active decisions are close", self.active & (self.gaps > self._reach + HAIR))

    def _none(self, name: str, wrong: Mask) -> None:
        """Check that no decision is wrong; the arms of the first one that is are entered."""
        first = self.family[int(np.argmax(wrong))]
        self.check_good(name, first, f"{int(wrong.sum())} decisions", not wrong.any())


class OracleWatch(Watch):
    """Follows a `ConstrainedElimination` that asks an oracle, step by step as its page of the documentation derives it.

    The weight of an arm is the lower end of its interval if the incumbent has it, else the upper end.
    """

    about: ClassVar[str] = "elimination by oracle"
    statements: ClassVar[tuple[Claim, ...]] = (
        Claim("played decisions are plausible", f"{_PAGE} 6"),
        Claim("layers have few rounds", f"{_PAGE} 8; erratum G10"),
        Claim("weights bound differences", f"{_PAGE} 1", event=True),
        Claim(_BEST, f"{_PAGE} 2; Theorem 7, proof, (1)", event=True),
        Claim(_CLOSE, f"{_PAGE} 7; Theorem 7, proof, (2)", event=True),
        Claim(_END, f"{_PAGE} 9", event=True),
        Claim(_REGRET, f"{_PAGE} 10", event=True),
        Claim(EVENT, "Lemma 1"),
    )

    def begin(self, policy: Any, replication: int) -> None:
        """Begin a run of a fresh policy."""
        super().begin(policy, replication)
        self.layer, self.rounds = -1, 0
        # When the incumbent was chosen: how long intervals were, and how often the rarest undecided arm had been seen.
        self.incumbent, self.lengths, self.seen = np.empty(0, np.int64), np.ones(policy.n_arms), 0
        if self.means is not None:
            self.values = self.means + offset_of(policy)
            self.best = policy.decisions.maximise(self.values)

    @cached_property
    def scale(self) -> float | None:
        """A number v such that no half-width after n rewards exceeds sqrt(v / n), if there is one."""
        policy = self.recipe
        horizon = np.asarray(policy.horizon or self.horizon, np.float64)
        found = width_scale(policy.interval, policy.n_arms, horizon, policy.delta, policy.horizon is None)
        return None if found is None else float(found)

    @cached_property
    def bound(self) -> Bound:
        """What is lost at most."""
        return oracle_upper(**self.by_graph, gap=self.gap)

    @property
    def excluded(self) -> dict[str, str]:
        """Why which of the statements are not applicable."""
        if self.means is None or self.scale is not None:
            return super().excluded
        return dict.fromkeys((_END, _REGRET), "the width has no bound that is known")

    def _look(self) -> None:
        """Check that what was decided leaves the best decision, and note when the incumbent was chosen again."""
        confirmed, undecided, eliminated = self.policy.triage
        if self.means is not None and confirmed.size + eliminated.size:
            gone = np.union1d(np.setdiff1d(confirmed, self.best), np.intersect1d(eliminated, self.best))
            self.check_good(_BEST, gone)
        if incumbent_of(self.policy) is not self.incumbent:
            lower, upper = intervals_of(self.policy)
            self.incumbent, self.lengths = incumbent_of(self.policy), upper - lower
            self.seen = int(self.policy.tally.counts[undecided].min(initial=2**62))

    def asked(self, number: int, decision: Decision) -> None:
        """Check the decision against the incumbent, and what was decided while it was chosen."""
        check, arms, undecided = self.ledger.check, decision.arms, self.policy.triage.active
        self._look()
        lower, upper = intervals_of(self.policy)
        weights = upper.copy()
        weights[self.incumbent] = lower[self.incumbent]
        benchmark, own = math.fsum(weights[self.incumbent]), math.fsum(weights[arms])
        detail = f"weight {own:.6g}, the incumbent has {benchmark:.6g}"
        # The policy itself lets sums differ by a share of 1e-9.
        room = 4.0 * HAIR * (1.0 + abs(benchmark))
        check("played decisions are plausible", arms, detail, own >= benchmark - room)
        if undecided.size:
            layer = int(self.policy.tally.counts[undecided].min())
            self.rounds = self.rounds + 1 if layer == self.layer else 1
            self.layer, most = layer, self.layer_size
            check("layers have few rounds", arms, f"{self.rounds}, at most {most:.4g}", self.rounds <= most)
        if self.means is not None:
            self._check_losses(number, arms, weights, upper - lower)

    def _check_losses(self, number: int, arms: Ints, weights: Floats, lengths: Floats) -> None:
        values, incumbent = self.values, self.incumbent
        for one in (arms, self.best):
            gain = math.fsum(values[one]) - math.fsum(values[incumbent])
            most = math.fsum(weights[one]) - math.fsum(weights[incumbent])
            self.check_good("weights bound differences", one, f"{gain:.4g}, allowed {most:.4g}", gain <= most + HAIR)
        loss = self.lose(number, arms)
        most = math.fsum(lengths[np.setxor1d(arms, incumbent)])
        most += math.fsum(self.lengths[np.setxor1d(self.best, incumbent)])
        self.check_loss(_CLOSE, arms, loss, most)
        if self.scale is None:
            return
        # Everything is decided, or the undecided arms had narrow intervals when the incumbent was chosen.
        if 6.0 * self.policy.budget * math.sqrt(self.scale / max(self.seen, 1)) < self.gap:
            self.check_good(_END, arms, f"lost {loss:.4g}", loss <= HAIR)
        self.check_bound(_REGRET, arms, self.bound.value)

    def told(self, number: int, decision: Decision) -> None:
        """Look whether intervals still hold, and at what was decided."""
        self.note_intervals(decision.revealed)
        self._look()

"""SlatePolicy: a policy of one `choose` and one `learn`, whichever arms may be chosen; see `policies.request`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage.certificate import Bounds, Tally
from armtriage.decisions import ArmSet, Decision, Floored, TopS, floor_at
from armtriage.kernels.jit import compiling_for
from armtriage.kernels.record import Floats, Ints
from armtriage.policies.changing import locked
from armtriage.policies.earlier import evidence_before, is_before, with_ends
from armtriage.policies.evidence import (
    PATIENCE,
    Evidence,
    bounds_of,
    evidence_from,
    evidence_of,
    grown,
    new_evidence,
    start_again,
    tally_of,
)
from armtriage.policies.facts import facts_of, require, restore_arrays, take_facts, within
from armtriage.policies.request import (
    ALL,
    CLOSE,
    PASS,
    RAW,
    SOME,
    TEACH,
    WEIGH,
    Entries,
    Kernels,
    Post,
    Request,
    entries_for,
    new_request,
)
from armtriage.policies.rewards import Told
from armtriage.policies.saved import part_of
from armtriage.policies.warm import WarmPolicy
from armtriage.triage import TriageLog, triage_among

_NONE = np.empty(0, np.int64)
_NO_REWARDS = np.empty(0)


def _in_slots(beliefs: Floats, proposal: Ints, arms: Ints) -> Floats:
    """Return what ranks arms, of which those that are not in the proposal have got the slots of others."""
    found, stay, kept = np.empty_like(beliefs), np.isin(arms, proposal), np.isin(proposal, arms)
    found[:, stay], found[:, ~stay] = beliefs[:, kept], beliefs[:, ~kept]
    return found


class SlatePolicy(WarmPolicy):
    """A policy with kernels that choose and learn from one `Evidence`; all arms are but one set of candidates.

    Over a decision set, the oracle finds the decision of largest weight by the kernel `weigh`; with `TopS`, `choose`
    chooses by the same rule in less time, though random numbers may differ.
    """

    kernels: ClassVar[Kernels]
    draws: ClassVar[bool] = False
    """Whether beliefs are luck and a posterior."""
    keeps_intervals: bool = False
    """Whether the evidence has intervals."""
    _of_this_process = WarmPolicy._of_this_process | {
        "_own",
        "_old_own",
        "_params",
        "_request",
        "_candidates",
        "_post",
        "_entries",
    }
    _may_change = True
    _takes_floor = True
    _settles_at_once = False  # a reward is on its way until its decision is closed
    _all_alone = False  # whether no other candidates than all arms can be given
    _format = 4

    @abstractmethod
    def params(self) -> Any:
        """Return the parameters of the kernels."""

    @abstractmethod
    def new_own(self, evidence: Evidence) -> Any:
        """Return the caches of some evidence."""

    def renewed_own(self, old: Any) -> Any:
        """Return the caches after arms were added, or have begun again."""
        return self.new_own(self._evidence)

    @property
    def throws_coins(self) -> bool:
        """Whether a reward between 0 and 1 counts in draws as 1 with that probability, and else as 0."""
        return False

    @cached_property
    def in_loop(self) -> bool:
        """Whether the kernels choose decisions, and not an oracle; `TopS` has all slates, and is asked nothing."""
        return self.decisions is None or isinstance(self.decisions, TopS)

    @property
    def in_simulation(self) -> bool:
        """Whether `simulate` plays it in compiled code, but for oracles that are not."""
        return self.forget is None and self.old_log is None

    @cached_property
    def _params(self) -> Any:
        return self.params()

    # Made when first needed: a policy that is only simulated never fills a million arms of its own.
    @cached_property
    def _evidence(self) -> Evidence:
        return self.new_evidence()

    def new_evidence(self) -> Evidence:
        """Return evidence of arms that were never seen."""
        found = self._with_shares(new_evidence(self.n_arms, **self._kinds))
        return self._with_old_log(self._parted(found), begin=True)

    @property
    def _kinds(self) -> dict[str, bool]:
        """What evidence is kept beside what every policy has."""
        warm = self.old_log is not None
        return {"coin": self.throws_coins, "ends": self.keeps_intervals, "warm": warm, "played": not self._plain}

    def _with_shares(self, evidence: Evidence) -> Evidence:
        """Give each arm its share of delta, and return the evidence."""
        if self.keeps_intervals and self._roster.extra:
            evidence.divisors[: self.n_arms] = self._roster.divisors()
        return evidence

    @property
    def _always_all(self) -> bool:
        """Whether all arms were eligible in every round, and there were no others."""
        return int(self._evidence.rounds) == self._asked and not self._roster.changed

    @cached_property
    def _ghosts(self) -> dict[str, NDArray[Any]]:
        """What was known of arms that have begun again: their pulls were part of what was lost."""
        return {name: np.zeros(0, kept.dtype) for name, kept in self._ghost_facts().items()}

    # After arms were added, made again when first needed: a thousand that are added one by one cost that once.
    @cached_property
    def _own(self) -> Any:
        old = vars(self).pop("_old_own", None)
        return self.new_own(self._evidence) if old is None else self.renewed_own(old)

    @property
    def _has_caches(self) -> bool:
        return not vars(self).keys().isdisjoint(("_own", "_old_own"))

    def new_request(self, room: int, arms: Ints, stream: np.uint64) -> Request:
        """Return a request that fills `arms`, for so many rows of evidence."""
        graph, rows = None if self._plain else self.graph, 4 if self.draws else 1
        scale = *self.reward_range, *self._scale
        return new_request(room, arms, stream, rows, scale, graph, sleepers=self.sleepers_seen)

    @cached_property
    def _request(self) -> Request:
        return self.new_request(self._evidence.counts.size, np.zeros(self.budget, np.int64), self._stream)

    @cached_property
    def _candidates(self) -> memoryview:
        """The mask of the request, for the arms that there are; to write it so takes half of what NumPy takes."""
        return self._request.mask[: self.n_arms].view(np.bool_).data

    @cached_property
    def _post(self) -> Post:
        return Post(self._params, self._evidence, self._own, self._request)

    @cached_property
    def _entries(self) -> Entries:
        with compiling_for(self):
            return entries_for(self.kernels, self._post.layout, alone=self._plain)

    @locked
    def __getstate__(self) -> dict[str, Any]:
        kept = self._arrays() if self._has_caches else {}
        return {**super().__getstate__(), "_kept": {name: array.copy() for name, array in kept.items()}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        kept = state.pop("_kept")
        super().__setstate__(state)
        if kept:
            self._restore(kept)

    @locked
    def ask(self, eligible: Any = None) -> Decision:  # noqa: D102 - as in every policy
        if self._delays is not None or self._clock is not None:
            # What is refused has changed nothing.
            self._check_any(int(np.count_nonzero(self._mask(eligible))), eligible is None)
            self._grow_older()
        if eligible is None and not self._roster.retired:
            return self._ask_all()
        return self._ask_some(self._mask(eligible), eligible is None)

    @locked
    def record(
        self,
        arms: ArrayLike | Iterable[Any],
        contexts: Any = None,
        eligible: ArrayLike | Iterable[Any] | None = None,
        proposal: ArrayLike | Iterable[Any] | None = None,
    ) -> Decision:
        """Adopt a decision that was made elsewhere as the next one, and return it; see `armtriage.Policy.record`.

        Parameters
        ----------
        arms, contexts, eligible
            As for every policy.
        proposal : array_like, optional
            Where the decision was made with the same `logging_floor`: `Decision.proposal`, from which its probabilities
            follow. Without it they are not known. With `positions`, the same arms again: the page was made by a policy
            with the same seed and swaps, whose coin then counts for the weights of places; no other does.

        Examples
        --------
        >>> from armtriage import Greedy
        >>> one, other = (Greedy(6, budget=2, logging_floor=0.2, seed=7) for _ in range(2))
        >>> decision = one.ask()
        >>> other.record(decision.arms, proposal=decision.proposal).inclusion
        array([0.8, 0.1])
        """
        if proposal is None:
            return super().record(arms, contexts, eligible)
        arms = list(arms)  # type: ignore[arg-type]
        # What is open is found before the decision counts, as in ask.
        known = self._as_proposed(arms, proposal, eligible)
        decision = super().record(arms, contexts, eligible)
        vars(decision).update(known)
        return decision

    def _as_proposed(self, arms: list[Any], proposal: Any, eligible: Any) -> dict[str, Any]:
        """Return what is known of a decision by what was proposed."""
        if not self.logging_floor:
            raise ValueError(f"proposal must be left out without a logging_floor, got {proposal!r:.100}")
        found = np.sort(self._roster.numbers(proposal, "proposal"))
        among = self._eligible(eligible)
        self._check_decision(found, among, "proposal")
        return {"floored": self._floored(self._asked, found, np.arange(self.n_arms) if among is None else among)}

    def triage_log(self, own: Any = None) -> TriageLog | None:
        """Return when arms were decided, for policies that decide arms."""
        return None

    def _check_any(self, n: int, live: bool) -> None:
        """Refuse a request without arms that may be chosen, whether `live` ones or those that were given."""
        if n == 0:
            self._check_some(_NONE if live else None)
            raise ValueError("eligible must name an arm or more, got none")

    def _ask_all(self, given: Ints | None = None) -> Decision:
        if given is not None or not self.in_loop or self.logging_floor or (self.forget and self._next_look >= 0):
            return self._ask_slowly(None, given)
        request = self._request
        self._entries.ask(self._post.handle, self._asked, ALL, True)
        return self._begin(request.arms.copy(), shown=self._revealed, beliefs=request.beliefs.copy())

    @property
    def _revealed(self) -> Ints | None:
        """What the last decision of the kernels reveals; None where that is the decision itself."""
        return None if self._plain else self._request.seen[: self._request.shown].copy()

    def _ask_among(self, among: Ints, given: Ints | None = None) -> Decision:
        return self._ask_all(given) if among.size == self.n_arms else super()._ask_among(among, given)

    def _ask_some(self, mask: NDArray[np.bool_], live: bool) -> Decision:
        """Return the next decision among the arms that a mask has."""
        if (
            self._all_alone
            or self.decisions is not None
            or self.logging_floor
            or (self._roster.retired and not self._plain and self.sleepers_seen)
            or (self.forget and self._next_look >= 0)
        ):
            among = np.flatnonzero(mask)
            self._check_any(among.size, live)
            return self._ask_among(among)
        request = self._request
        self._candidates[:] = mask.data
        n = self._entries.ask(self._post.handle, self._asked, SOME, True)
        self._check_any(n, live)
        if n >= self.budget:
            arms, beliefs = request.arms.copy(), request.beliefs.copy()
        else:
            arms, beliefs = request.arms[:n].copy(), request.beliefs[:, :n].copy()
        candidates = None if n == mask.size else self._set_of(mask, n)
        return self._begin(arms, among=candidates, shown=self._revealed, beliefs=beliefs)

    def _set_of(self, mask: NDArray[np.bool_], n: int) -> ArmSet:
        """Return the n candidates of the last request, of which the kernel has left the bits."""
        few = mask.size > 32 * n
        return ArmSet.of(np.flatnonzero(mask)) if few else ArmSet.of_bits(self._request.bits.tobytes(), n)

    def _replaced(
        self, own: Ints, beliefs: Floats | None, among: Ints | None, given: Ints | None
    ) -> tuple[Ints, Floats | None, dict[str, Any]]:
        number, floored, eligible = self._asked, None, np.arange(self.n_arms) if among is None else among
        if self.forget and (looked := self._look(own, eligible)) is not own:
            own, beliefs, _ = super()._replaced(own, beliefs, among, looked)
        if self.logging_floor and given is None:
            floored = self._floored(number, own.copy(), eligible)
            given = floored.swap(own, eligible, self.seed, number)
        arms, found, _ = super()._replaced(own, beliefs, among, given)
        if floored is None:
            return arms, found, {}
        return arms, None if beliefs is None else _in_slots(beliefs, own, arms), {"floored": floored}

    def _floored(self, number: int, proposal: Ints, eligible: Ints) -> Floored:
        """Return with which probabilities slots of a proposal are given to others."""
        floor = floor_at(self.logging_floor, number)
        if self.floor_arms == "all":
            return Floored(proposal, floor, eligible.size - proposal.size)
        among = None if eligible.size == self.n_arms else eligible
        found = triage_among(*self._ends(among), eligible, self.budget).active
        return Floored(proposal, floor, int((~np.isin(found, proposal)).sum()), found)

    def _chosen(self, number: int, among: Ints | None) -> tuple[Ints, Floats | None]:
        if self.decisions is not None and (among is not None or not self.in_loop):
            return self._heaviest(number, among)
        return self._by_kernel(number, among)

    def _by_kernel(self, number: int, among: Ints | None) -> tuple[Ints, Floats]:
        request = self._request
        self._set_mask(among)
        n = self.n_arms if among is None else among.size
        self._entries.ask(self._post.handle, number, ALL if among is None else SOME, False)
        size = min(n, self.budget)
        return request.arms[:size].copy(), request.beliefs[:, :size].copy()

    def _set_mask(self, among: Ints | None) -> None:
        if among is not None:
            self._request.mask[:] = 0
            self._request.mask[among] = 1

    def decision_of_set(self, params: Any, evidence: Evidence, own: Any, request: Request, number: int) -> Ints:
        """Return the decision of round `number` of a set, as `simulate` asks for it."""
        assert self.decisions is not None
        arms = self.decisions.maximise(self.weights(params, evidence, own, request, number), (), _NONE)
        assert arms is not None, "a set has a decision"
        return arms

    def _heaviest(self, number: int, among: Ints | None) -> tuple[Ints, Floats | None]:
        assert self.decisions is not None
        weights = self.weights(self._params, self._evidence, self._own, self._request, number)
        asleep = _NONE if among is None else np.setdiff1d(np.arange(self.n_arms), among, assume_unique=True)
        arms = self.decisions.maximise(weights, (), asleep)
        if arms is None:
            raise ValueError(
                f"eligible must leave a decision of {self.decisions!r}, got {self.n_arms - asleep.size} arms"
            )
        return arms, weights[None, arms]

    def weights(self, params: Any, evidence: Evidence, own: Any, request: Request, number: int) -> Floats:
        """Return the weights of round `number` for the oracle of a decision set."""
        assert self.kernels.weigh is not None
        weights = np.empty(self.n_arms)
        request.number = number
        self.kernels.weigh(params, evidence, own, request, self._offset, weights)
        if self.decisions is not None and self.decisions.needs_costs:
            # Nothing costs less than the least of reward_range, however optimistic an index is.
            np.minimum(weights, 1.0 + self._offset, out=weights)
        return weights

    def _note(self, among: Ints | None, arms: Ints, shown: Ints) -> None:
        request, size = self._request, arms.size
        self._set_mask(among)
        request.arms[:size], request.seen[: shown.size] = arms, shown
        self._entries.note(self._post.handle, ALL if among is None else SOME, size, shown.size)

    def _select(self, number: int) -> Ints:
        return self._chosen(number, None)[0]

    def _learn(self, number: int, arms: Ints, rewards: Floats, missing: Ints) -> None:
        bad = self._send(number, arms, rewards, 0, missing, RAW)
        if bad >= 0:
            raise self._out_of_range(rewards[bad], arms[bad])
        if number < self._since:
            self._count_before(number, arms, self._to_unit(rewards))
        del self._open[number]

    def _send(self, number: int, arms: Ints, rewards: Floats, known: int, missing: Ints, mode: int) -> int:
        """Hand over what was told, as `Told` has it."""
        request, m = self._request, arms.size
        n = m + missing.size
        request.seen[:m], request.rewards[:m] = arms, rewards
        if n > m:
            request.seen[m:n] = missing
        if m and mode <= PASS and not self._plain:
            # A policy inside a guard is told of decisions that are closed; it certifies nothing.
            decision = self._open.get(number)
            request.hold(_NONE if decision is None else decision.arms)
        bad = self._entries.tell(self._post.handle, number, known, m, n, mode)
        if (self._alarm is not None or self._sees) and bad < 0 and mode <= PASS:
            self._watch(number, arms, request.rewards[:m])
        if self.forget is not None and bad < 0 and mode <= TEACH and known < m:
            self._weigh_told(number, arms[known:], request.rewards[known:m].copy())
        return bad

    def _teach(self, number: int, arms: Ints, rewards: Floats) -> None:
        self._send(number, arms, rewards, 0, _NONE, TEACH)

    def _update(self, number: int, arms: Ints, rewards: Floats) -> None:
        self._send(number, arms, rewards, 0, _NONE, CLOSE)

    def _close_among(self, told: Told) -> None:
        known = told.known if self.learns_at_once else 0
        mode = PASS if told.unseen else CLOSE
        self._send(told.number, told.arms, told.rewards, known, told.missing, mode)

    def _settle(self, told: Told) -> None:
        self._count_before(told.number, told.arms, told.rewards)
        self._close_among(told)
        del self._open[told.number]

    def _count_missed(self, seen: Ints, missing: Ints) -> None:
        pass  # the evidence has it

    @property
    def _weighed(self) -> bool:
        return bool(self._evidence.weighed)

    def _weigh(self, arms: Ints, weights: Floats) -> None:
        changed = weights != self._evidence.unheard[arms]
        if changed.any():
            self._send(0, arms[changed], weights[changed], 0, _NONE, WEIGH)

    def _take_in_arms(self) -> None:
        n = self.n_arms
        if "_evidence" in vars(self) and int(self._evidence.n_arms) < n:
            if not self._plain:
                self._graph_before(n)
            first = int(self._evidence.n_arms)
            evidence = grown(self._evidence, n, played=not self._plain)
            if self.keeps_intervals:
                evidence.divisors[first:n] = [self._roster.divisor(arm) for arm in range(first, n)]
            self._leave_caches()
            self._evidence = evidence
        self._grow_watch()

    def _leave_caches(self) -> None:
        """Let the caches be made again, of those there are, when they are next needed."""
        old = vars(self).get("_own", vars(self).get("_old_own"))
        self._clear_caches()
        if old is not None:
            self._old_own = old

    def _change(self, evidence: Evidence) -> None:
        """Go on with evidence that has other facts of the arms."""
        old = self._own
        self._clear_caches()
        self._evidence = evidence
        self._own = self.renewed_own(old)

    def _clear_caches(self, *more: str) -> None:
        """Let what follows from the evidence be made again when it is needed."""
        for name in ("_params", "_own", "_old_own", "_request", "_candidates", "_post", "_entries", *more):
            vars(self).pop(name, None)

    def _forget(self, arms: list[int]) -> None:
        evidence, known = self._evidence, self._ghost_facts()
        self._ghosts = {name: np.append(kept, known[name][arms]) for name, kept in self._ghosts.items()}
        start_again(evidence, arms)
        self._drop(arms)
        self._change(evidence)

    def _ghost_facts(self) -> dict[str, NDArray[Any]]:
        """Return what is kept of arms that begin again, here of all arms."""
        evidence = self._evidence
        exposures = evidence.exposures[: self.n_arms] + evidence.rounds
        return {**self.tally.columns, "exposures": exposures, "divisors": self._roster.divisors()}

    def _share_again(self, arms: list[int]) -> None:
        self._with_shares(self._evidence)

    @property
    def tally(self) -> Tally:  # noqa: D102 - as in every policy
        return tally_of(self._evidence)

    @property
    def _exposures(self) -> Ints | None:
        evidence, n = self._evidence, self.n_arms
        always = self.decisions is not None or (evidence.rounds == self._asked and not self._roster.extra)
        return None if always else evidence.exposures[:n] + evidence.rounds

    def _ends(self, among: Ints | None) -> Bounds:
        return self._bounds() if self.keeps_intervals else super()._ends(among)

    def _bounds(self, delta: float = 0.05) -> Bounds:
        return bounds_of(self._evidence) if self.keeps_intervals else super()._bounds(delta)

    @property
    def interval_failures(self) -> int:  # noqa: D102 - as in every policy
        return int(self._evidence.failures)

    def _forgotten(self) -> dict[str, NDArray[Any]]:
        return self._ghosts

    @property
    def _silent(self) -> tuple[int, ...]:
        return tuple(np.flatnonzero(self._evidence.missed >= PATIENCE).tolist())

    def _known(self) -> dict[str, NDArray[Any]]:
        known = {f"evidence.{name}": array for name, array in evidence_of(self._evidence).items()}
        if self._ghosts["pulls"].size:
            known |= {f"ghosts.{name}": array for name, array in self._ghosts.items()}
        known |= self._alarm_arrays() | self._old_log_arrays() | self._fading_arrays()
        return known | {f"state.{name}": array for name, array in facts_of(self._own).items()}

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return part_of(self._known(), "state.")

    def _restore_known(self, parts: Mapping[str, Mapping[str, NDArray[Any]]]) -> Mapping[str, NDArray[Any]]:
        self._restore_alarm(dict(parts.get("alarm", {})))
        self._restore_old_log(dict(parts.get("old_log", {})))
        if is_before(parts):
            parts = evidence_before(parts, self)
        parts = with_ends(parts, self)
        require(not parts["rows"] and not parts["tally"], "there must be no tally beside the evidence")
        n, awaited = self.n_arms, self._awaited()
        self._clear_caches("_ghosts")
        evidence = evidence_from(parts["evidence"], n, self._asked, awaited, **self._kinds)
        self._restore_fading(parts.get("fading", {}), evidence)
        self._evidence = self._with_old_log(self._with_shares(evidence))
        if parts["ghosts"]:
            self._restore_ghosts(parts["ghosts"])
        self._check_told(tally_of(evidence))
        if self.decisions is None and evidence.rounds == self._asked:
            pulls = evidence.pulls.sum() + self._ghosts["pulls"].sum()
            made = self._asked - self._began
            require(pulls in (0, self.budget * made), "pulls must be those of all decisions")
        return parts["state"]

    def _check_told(self, closed: Tally) -> None:
        """Refuse rewards that are not those of closed decisions, and of what was told of open ones."""
        evidence, n = self._evidence, self.n_arms
        counts, total = closed.counts + self._early() * self.learns_at_once, closed.sums.copy()
        for number, told in self._parts.items() if self.learns_at_once else ():
            for arm, reward in told.items():
                total[arm] += 0.0 if self._roster.is_newer(arm, number) else reward
        require(np.array_equal(evidence.counts[:n], counts), "what was told must be what was settled, and told since")
        off = np.maximum(evidence.sums[:n] - total, 0.0 if self._fades else total - evidence.sums[:n])
        require(off <= 1e-9 * (1.0 + counts), "sums must be those of closed decisions, and of what was told since")

    def _restore_ghosts(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        size = arrays["pulls"].size
        ghosts = {name: np.zeros(size, own.dtype) for name, own in self._ghosts.items()}
        require(set(ghosts) == set(arrays), f"ghosts must have {', '.join(ghosts)}, got {', '.join(arrays)}")
        restore_arrays(ghosts, arrays)
        within("exposures of ghosts", ghosts["exposures"], 0, self._asked)
        within("pulls of ghosts", ghosts["pulls"], 0, ghosts["exposures"])
        within("counts of ghosts", ghosts["counts"], 0, self._asked)
        within("sums of ghosts", ghosts["sums"], 0.0, ghosts["counts"])
        within("between of ghosts", ghosts["between"], 0.0, ghosts["counts"] / 4.0)
        within("shares of ghosts", ghosts["divisors"], 1.0, 1e30)
        self._ghosts = ghosts

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        take_facts(self._own, arrays)
        self._check_own()

    def _check_own(self) -> None:
        """Refuse facts of the caches, if they have any, that cannot be."""

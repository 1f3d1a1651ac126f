"""check_policy passes what keeps the contract, and says what others break."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from armtriage import (
    ContextualPolicy,
    Decision,
    DecisionSet,
    FeedbackGraph,
    HierarchicalElimination,
    Policy,
    check_policy,
)
from conftest import Plain, PlainContextual


class RepeatsAnArm(Plain):
    def _select(self, number: int) -> np.ndarray:
        arms = super()._select(number)
        arms[-1] = arms[0]
        return arms


class ForgetsAnArm(Plain):
    def _select(self, number: int) -> np.ndarray:
        return super()._select(number)[: max(1, self.budget - 1)]


class IgnoresTheSeed(Plain):
    made = itertools.count()

    def _taste(self) -> np.ndarray:
        return np.random.default_rng(next(self.made)).random(self.n_arms)


class LearnsFromARefusedTell(Plain):
    def tell(self, decision: Any, rewards: Any) -> None:
        self.counts[0] += 1
        super().tell(decision, rewards)
        self.counts[0] -= 1


class AcceptsAnything(Plain):
    def tell(self, decision: Any, rewards: Any) -> None:
        try:
            super().tell(decision, rewards)
        except ValueError:
            return


class SavesNothing(Plain):
    def _arrays(self) -> dict[str, np.ndarray]:
        return {}

    def _restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        return


class RemembersWhenFresh(Plain):
    def fresh(self, seed: int | None = None, replication: int = 0) -> RemembersWhenFresh:
        other = super().fresh(seed, replication)
        other.sums, other.counts = self.sums.copy(), self.counts.copy()
        return other


class IgnoresTheRange(Plain):
    def _to_unit(self, values: np.ndarray) -> np.ndarray:
        return values


class RepeatsAnArmWithContexts(PlainContextual):
    def _select(self, number: int, contexts: np.ndarray) -> np.ndarray:  # type: ignore[override]
        arms = super()._select(number, contexts)
        arms[-1] = arms[0]
        return arms


class ForgetsAnArmWithContexts(PlainContextual):
    def _select(self, number: int, contexts: np.ndarray) -> np.ndarray:  # type: ignore[override]
        return super()._select(number, contexts)[: max(1, self.budget - 1)]


class IgnoresTheSeedWithContexts(PlainContextual):
    made = itertools.count()

    def _taste(self) -> np.ndarray:
        return np.random.default_rng(next(self.made)).random(self.n_arms)


class LearnsFromARefusedTellWithContexts(PlainContextual):
    def tell(self, decision: Any, rewards: Any) -> None:
        self.moment += 1.0
        super().tell(decision, rewards)
        self.moment -= 1.0


class AcceptsAnyReward(PlainContextual):
    def tell(self, decision: Any, rewards: Any) -> None:
        try:
            super().tell(decision, rewards)
        except ValueError:
            return


class AcceptsAnyContexts(PlainContextual):
    def ask(self, contexts: Any) -> Decision:  # type: ignore[override]
        return super().ask(np.nan_to_num(contexts, posinf=0.0, neginf=0.0))


class LearnsFromARefusedAsk(PlainContextual):
    def ask(self, contexts: Any) -> Decision:  # type: ignore[override]
        self.moment += 1.0
        decision = super().ask(contexts)
        self.moment -= 1.0
        return decision


class CountsARefusedAsk(PlainContextual):
    def ask(self, contexts: Any) -> Decision:  # type: ignore[override]
        try:
            return super().ask(contexts)
        except ValueError:
            super().ask(np.zeros((self.n_arms, self.dimension)))
            raise


class SavesNothingWithContexts(PlainContextual):
    def _arrays(self) -> dict[str, np.ndarray]:
        return {}

    def _restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        return


class SavesNoContexts(PlainContextual):
    def _open_arrays(self) -> dict[str, np.ndarray]:
        arrays = super()._open_arrays()
        return {**arrays, "contexts": np.zeros_like(arrays["contexts"])}


class RemembersWhenFreshWithContexts(PlainContextual):
    def fresh(self, seed: int | None = None, replication: int = 0) -> RemembersWhenFreshWithContexts:
        other = super().fresh(seed, replication)
        other.gram, other.moment = self.gram.copy(), self.moment.copy()
        return other


class IgnoresTheRangeWithContexts(PlainContextual):
    def _to_unit(self, values: np.ndarray) -> np.ndarray:
        return values


class IgnoresTheBound(PlainContextual):
    def _scaled(self, contexts: np.ndarray) -> np.ndarray:
        return contexts


class KeepsTheCallersArray(PlainContextual):
    last: Any = None

    def ask(self, contexts: Any) -> Decision:  # type: ignore[override]
        decision = super().ask(contexts)
        self.last = contexts
        return decision

    def _update(  # type: ignore[override]
        self, number: int, arms: np.ndarray, contexts: np.ndarray, rewards: np.ndarray
    ) -> None:
        kept = contexts if self.last is None else self.last[arms] / self.context_bound
        super()._update(number, arms, np.nan_to_num(kept), rewards)


class WritesOnTheCallersArray(PlainContextual):
    def _select(self, number: int, contexts: np.ndarray) -> np.ndarray:  # type: ignore[override]
        contexts *= 0.5
        return super()._select(number, contexts)


class SharesItsContexts(PlainContextual):
    def _begin(self, arms: np.ndarray, **more: Any) -> Decision:
        decision = super()._begin(arms, **more)
        decision.contexts.flags.writeable = True
        return decision

    def _update(  # type: ignore[override]
        self, number: int, arms: np.ndarray, contexts: np.ndarray, rewards: np.ndarray
    ) -> None:
        super()._update(number, arms, np.nan_to_num(contexts), rewards)


class GivesScaledContexts(PlainContextual):
    def _begin(self, arms: np.ndarray, **more: Any) -> Decision:
        return super()._begin(arms, **{**more, "contexts": 0.5 * more["contexts"]})


class HasNoContexts(Policy):
    def __init__(self, n_arms: int, dimension: int, budget: int, *, seed: int | None = None) -> None:
        super().__init__(FeedbackGraph.semi_bandit(n_arms), budget, seed=seed)
        self.dimension = dimension

    def _select(self, number: int) -> np.ndarray:
        return np.arange(self.budget)

    def _update(self, number: int, arms: np.ndarray, rewards: np.ndarray) -> None:
        return


class Roundabout(Policy):
    """Play the decisions of a set in turn."""

    def __init__(self, graph: FeedbackGraph, decisions: DecisionSet, *, seed: int | None = None) -> None:
        super().__init__(graph, decisions=decisions, seed=seed)
        self._listed = list(decisions)

    def _select(self, number: int) -> np.ndarray:
        return self._listed[number % len(self._listed)]

    def _update(self, number: int, arms: np.ndarray, rewards: np.ndarray) -> None:
        pass


class Heedless(Roundabout):
    """Play other decisions than those of the set."""

    def _select(self, number: int) -> np.ndarray:
        return np.arange(self.budget)


BROKEN: dict[type[Policy], str] = {
    RepeatsAnArm: "arms must rise",
    ForgetsAnArm: "a decision must have 3 arms",
    IgnoresTheSeed: "the same seed gave other decisions",
    LearnsFromARefusedTell: "a refused tell changed the future",
    AcceptsAnything: "should raise ValueError",
    SavesNothing: "the loaded policy went another way",
    RemembersWhenFresh: r"fresh\(\) did not forget",
    IgnoresTheRange: "reward_range changed the decisions",
    RepeatsAnArmWithContexts: "arms must rise",
    ForgetsAnArmWithContexts: "a decision must have 3 arms",
    IgnoresTheSeedWithContexts: "the same seed gave other decisions",
    LearnsFromARefusedTellWithContexts: "a refused tell changed the future",
    AcceptsAnyReward: "should raise ValueError",
    AcceptsAnyContexts: "ask.*should raise ValueError",
    LearnsFromARefusedAsk: "a refused ask changed the future",
    CountsARefusedAsk: "a refused ask left a decision open",
    SavesNothingWithContexts: "the loaded policy went another way",
    SavesNoContexts: "load changed the contexts of an open decision",
    RemembersWhenFreshWithContexts: r"fresh\(\) did not forget",
    IgnoresTheRangeWithContexts: "reward_range changed the decisions",
    IgnoresTheBound: "context_bound changed the decisions",
    KeepsTheCallersArray: "contexts that were written on after ask changed what was learned",
    WritesOnTheCallersArray: "ask wrote on the contexts|must have the contexts of its arms",
    SharesItsContexts: "the contexts of a decision must be read-only",
    GivesScaledContexts: "must have the contexts of its arms as they were given",
    HasNoContexts: "a policy with a dimension must be a ContextualPolicy",
    Heedless: "is no decision of the set",
}


class ReturnsAList(Plain):
    def _select(self, number: int) -> Any:
        return super()._select(number).tolist()


class ReturnsNothing(Plain):
    def _select(self, number: int) -> Any:
        return None


class ReturnsFloats(Plain):
    def _select(self, number: int) -> Any:
        return super()._select(number).astype(float)


class LosesAnArgument(Plain):
    def __init__(self, graph: FeedbackGraph, budget: int, *, eps: float = 0.1, seed: int | None = None) -> None:
        super().__init__(graph, budget, seed=seed)


class TakesNoSeed(Plain):
    def __init__(self, graph: FeedbackGraph, budget: int) -> None:
        super().__init__(graph, budget)


class MissesAMethod(Policy):
    def _select(self, number: int) -> Any:
        return np.arange(self.budget)


class FailsToLearn(Plain):
    def _update(self, number: int, arms: np.ndarray, rewards: np.ndarray) -> None:
        raise KeyError(number)


class KeepsAnObject(Plain):
    def _arrays(self) -> Any:
        return {"counts": None}


class RestoresWhatIsNotThere(Plain):
    def _restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.counts[:] = arrays["cuonts"]


class IsNoPolicy:
    def __init__(self, graph: FeedbackGraph, budget: int, seed: int | None = None) -> None:
        pass


OBSCURE: dict[Any, str] = {
    ReturnsAList: "arms must be a 1-D array of int64|raised .* while it was asked and told",
    ReturnsNothing: "ReturnsNothing raised .* while it was asked and told",
    ReturnsFloats: "arms must be a 1-D array of int64|raised .* while it was asked and told",
    LosesAnArgument: "must keep each argument of its constructor in an attribute of the same name: .*'eps'",
    TakesNoSeed: "TakesNoSeed raised TypeError when it was made with a graph and budget and a seed: .*'seed'",
    MissesAMethod: "MissesAMethod raised TypeError when it was made .*_update",
    FailsToLearn: "FailsToLearn raised KeyError while it was asked and told",
    KeepsAnObject: "KeepsAnObject raised .* while it was saved and loaded",
    RestoresWhatIsNotThere: "RestoresWhatIsNotThere raised .* while it was saved and loaded",
    IsNoPolicy: "it must be a subclass of Policy, or return one, got <",
    dict: "dict raised .* when",
    (lambda graph, budget, seed: None): "it must be a subclass of Policy, or return one, got None",
}


@pytest.mark.parametrize("kind", OBSCURE, ids=lambda kind: kind.__name__)
def test_contract_check_says_in_words_what_is_wrong_with_a_class_that(kind: Any) -> None:
    with pytest.raises(AssertionError, match=re.compile(OBSCURE[kind], re.DOTALL)):
        check_policy(kind)


@pytest.mark.parametrize(
    "given", [None, "greedy", 3, Plain(FeedbackGraph.semi_bandit(3), 1)], ids=lambda one: type(one).__name__
)
def test_contract_check_refuses_what_makes_no_policies(given: Any) -> None:
    with pytest.raises(TypeError, match="policy_class must be a class, or a function that makes policies, got"):
        check_policy(given)


@pytest.mark.parametrize("kind", [Plain, PlainContextual, Roundabout])
def test_contract_is_kept_by_a_policy_in_plain_python(kind: type[Policy]) -> None:
    check_policy(kind)


def test_contract_is_kept_by_a_function_that_makes_policies() -> None:
    def short(n_arms: int, dimension: int, budget: int, seed: int) -> ContextualPolicy:
        return HierarchicalElimination(n_arms, dimension, budget, horizon=3, seed=seed)

    check_policy(short)


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_contract_check_catches_a_policy_that(kind: type[Policy]) -> None:
    with pytest.raises(AssertionError, match=re.compile(BROKEN[kind], re.DOTALL)):
        check_policy(kind)

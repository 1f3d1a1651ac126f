"""From a policy's description in JSON to the policy itself."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import UNSET

from armtriage.catalogue import POLICIES, parameters_of, policy_kinds, policy_parameters
from armtriage.decisions import SETS, DecisionSet
from armtriage.graphs import FeedbackGraph
from armtriage.policies import ContextualPolicy, OldLog, Policy
from armtriage.service.messages import Arm, Create, DecisionFamily, FeatureFacts, Feedback
from armtriage.service.refusal import Refused, quoted, repeated, said, some_of
from armtriage.service.trial import Trial, microseconds
from armtriage.service.watch import Watch

if TYPE_CHECKING:
    from armtriage.features import Features

_LONGEST = 30 * 86_400_000_000
# Described by fields of their own.
_GIVEN = ("names", "reward_range", "direction", "horizon", "features")
_MOST_DIMENSIONS = 2048
_RECIPE = msgspec.json.Decoder(Create)


class Recipe:
    """What a policy is made of; the same recipe makes the same policy, whenever and wherever.

    Examples
    --------
    >>> recipe = Recipe(Create(name="drinks", arms=["tea", "milk", "jam"], budget=2, seed=7))
    >>> recipe.make().budget, recipe.window
    (2, 86400000000)
    """

    def __init__(self, create: Create) -> None:
        if create.seed is UNSET:
            create = msgspec.structs.replace(create, seed=secrets.randbits(62))
        if create.control is not UNSET and create.control.key is UNSET:
            control = msgspec.structs.replace(create.control, key=secrets.token_hex(32))
            create = msgspec.structs.replace(create, control=control)
        self.create = _with_prior(create, "learned")
        self._read_create()
        if create.features is not UNSET:
            self._take_features()

    def _read_create(self) -> None:
        create = self.create
        self.arms = [Arm(id=one) if isinstance(one, str) else one for one in create.arms]
        self.names = [one.id for one in self.arms]
        self.kind = create.policy.get("kind", "guarded_thompson")
        self.options = {key: value for key, value in create.policy.items() if key != "kind"}
        self.window = microseconds(create.join_window)
        if self.window > _LONGEST:
            raise Refused("invalid", f"join_window must be at most 30d, got {create.join_window}")
        if len(set(self.names)) < len(self.names):
            raise Refused("invalid", f"arms has the same id twice: {some_of(repeated(self.names))}")
        if not isinstance(self.kind, str) or self.kind not in POLICIES:
            raise Refused("invalid", f"policy.kind must be one of {', '.join(POLICIES)}, got {quoted(self.kind)}")
        accepted = [one for one in policy_parameters(self.kind) if one not in _GIVEN]
        if not issubclass(POLICIES[self.kind], ContextualPolicy):
            accepted += ["logging_floor", "floor_arms"]
        if odd := [key for key in self.options if key not in accepted]:
            text = f"policy has an option that {self.kind} has not: {some_of(odd)}; accepted are {', '.join(accepted)}"
            raise Refused("invalid", text)
        reward = create.reward
        if reward.range[1] is None and reward.cap is UNSET:
            raise Refused("invalid", "reward.range must end with a number unless there is a cap, got null")
        if reward.cap is not UNSET and not reward.range[0] < reward.cap <= reward.most:
            span = f"above {reward.range[0]:g}, the least reward, and at most the largest one"
            raise Refused("invalid", f"reward.cap must lie {span}, got {reward.cap!r}")
        (low, high), default = reward.counted, reward.default
        if default is not None and not low <= default <= high:
            raise Refused("invalid", f"reward.default must lie in [{low:g}, {high:g}], got {default!r}")
        self._check_fit()
        self._check_page()
        self.tried = create.control is not UNSET or create.metrics is not UNSET
        self.check_names(self.names)

    def check_names(self, names: Iterable[str]) -> None:
        """Refuse arms with names that totals and metrics have."""
        if self.tried and (taken := [name for name in names if name == "total" or name.startswith("metrics.")]):
            text = f"arms must not be called total or metrics.NAME beside a control or metrics, got {some_of(taken)}"
            raise Refused("invalid", text)

    def trial(self, budget: int) -> Trial | None:
        """Return the trial that the policy is in, before its first decision; None if there is no such thing."""
        return Trial.of(self.create, budget)

    def watched(self, policy: Policy) -> Watch | None:
        """Return the watch before the first decision; None if the policy decides from the beginning."""
        return Watch.of(self.create, policy)

    def _take_features(self) -> None:
        """Write down what features make of a policy, so that a replay of its log needs none."""
        create, made = self.create, self.features
        if create.dimension is not UNSET and create.dimension != made.dimension:
            raise Refused("invalid", f"dimension must be left out beside features, which make {made.dimension} numbers")
        if made.dimension > _MOST_DIMENSIONS:
            raise Refused("invalid", f"features must make at most {_MOST_DIMENSIONS} numbers, got {made.dimension}")
        policy = dict(create.policy)
        if "norm_bound" in policy_parameters(str(self.kind)):
            policy.setdefault("norm_bound", made.norm_bound)
        self.create = msgspec.structs.replace(create, dimension=made.dimension, policy=policy)
        self._read_create()

    @cached_property
    def features(self) -> Features:
        """What makes contexts of the rows of a request; refused where scikit-learn is not installed."""
        assert self.create.features is not UNSET
        try:
            from armtriage.features import Features
        except ModuleNotFoundError:
            raise Refused("not_installed", "features need pip install 'armtriage[features]'") from None
        try:
            return Features.from_facts(_facts(self.create.features))
        except (TypeError, ValueError) as error:
            raise Refused("invalid", f"features: {said(error)}") from None

    def _check_fit(self) -> None:
        """Refuse parts that do not go together, or that would do nothing."""
        create, kinds = self.create, policy_kinds(str(self.kind))
        contextual = issubclass(POLICIES[str(self.kind)], ContextualPolicy)
        if create.features is not UNSET and (not contextual or "context_bound" in self.options):
            raise Refused(
                "invalid", "features must be given for policies with contexts only, and without context_bound"
            )
        if contextual != (create.dimension is not UNSET or create.features is not UNSET):
            raise Refused("invalid", f"dimension must be given for policies with contexts only; this is {self.kind}")
        if create.log_contexts == "chosen" and not getattr(POLICIES[str(self.kind)], "learns_from_chosen_only", False):
            raise Refused("invalid", f"log_contexts must be all: {self.kind} needs the contexts of all arms, or none")
        if contextual and create.feedback.kind != "semi_bandit":
            raise Refused("invalid", "feedback must be semi_bandit for policies with contexts")
        if (create.budget is UNSET) == (create.decisions is UNSET):
            raise Refused(
                "invalid", "give either budget, how many arms a decision has, or decisions; not both, and not neither"
            )
        if create.decisions is not UNSET and "decisions" not in kinds:
            raise Refused("invalid", f"decisions must be left out: {self.kind} takes none")
        if create.budget is not UNSET and "decisions" in kinds and "budget" not in kinds:
            raise Refused("invalid", f"budget must be left out: {self.kind} takes decisions instead")

    @property
    def cascade(self) -> bool:
        """Whether decisions are told by their first click."""
        return self.create.feedback.kind == "cascade"

    @property
    def ordered(self) -> bool:
        """Whether it matters in which order arms are shown."""
        return self.cascade or self.create.positions is not UNSET

    @property
    def learns_places(self) -> bool:
        """Whether the weights of places are learnt."""
        return self.create.positions is not UNSET and self.create.positions.weights == "learn"

    def _check_page(self) -> None:
        """Refuse old logs, weights of places and cascades that do not fit the rest."""
        create, taken = self.create, parameters_of(POLICIES[str(self.kind)])
        if create.old_log is not UNSET and "old_log" not in taken:
            raise Refused("invalid", f"old_log must be left out: {self.kind} takes none")
        if create.old_log is not UNSET and (odd := [one for one in create.old_log.counts if one not in self.names]):
            raise Refused("unknown_arm", f"old_log.counts has {some_of(odd)}, which is not among arms")
        if create.positions is not UNSET and "positions" not in taken:
            guards = "; the bound of a guard is proved for slots that are alike" if "guard" in str(self.kind) else ""
            raise Refused("invalid", f"positions must be left out: {self.kind} takes none, thompson does{guards}")
        if self.ordered and create.status == "observing":
            raise Refused("invalid", "status must not be observing where the order matters: it compares slots alike")
        if not self.cascade:
            return
        if create.positions is not UNSET:
            raise Refused("invalid", "feedback or positions: a cascade or position weights, not both")
        if create.decisions is not UNSET:
            raise Refused("invalid", "feedback must not be a cascade over a set of decisions")
        reward = create.reward
        if (reward.counted, reward.direction, reward.rule) != ((0.0, 1.0), "maximize", "first"):
            plain = 'the range [0, 1], direction "maximize" and rule "first"'
            got = ", ".join(map(quoted, (list(reward.counted), reward.direction, reward.rule)))
            raise Refused("invalid", f"reward must have {plain} in a cascade, got {got}")
        if reward.default not in (None, 0.0):
            raise Refused("invalid", f"reward.default must be 0 or null in a cascade, got {reward.default!r}")

    @classmethod
    def read(cls, config: bytes) -> Recipe:
        """Return the recipe that `to_json` wrote; it has all that a replay needs, also without scikit-learn."""
        made = cls.__new__(cls)
        # The recipes of before name no prior over a decision set: it was uniform.
        made.create = _with_prior(_RECIPE.decode(config), "uniform")
        made._read_create()
        return made

    def to_json(self) -> bytes:
        """Return the recipe as it is stored, its seed included."""
        return msgspec.json.encode(self.create, order="deterministic")

    def public(self) -> Create:
        """Return the description without its secret, the key of the coin."""
        control = self.create.control
        if control is UNSET:
            return self.create
        return msgspec.structs.replace(self.create, control=msgspec.structs.replace(control, key=UNSET))

    def make(self) -> Policy:
        """Return the policy, which has made no decision yet; refuse what it refuses, by what it says."""
        made = self._made()
        if self.create.watch is not UNSET:
            try:
                made.watch(self.create.watch)
            except (ValueError, NotImplementedError) as error:
                raise Refused("invalid", f"watch: {said(error)}") from None
        return made

    def _made(self) -> Policy:
        create = self.create
        kind: Callable[..., Policy] = POLICIES[str(self.kind)]
        given: dict[str, Any] = {
            **self.options,
            "names": self.names,
            "seed": create.seed,
            "reward_range": create.reward.counted,
            "direction": create.reward.direction,
        }
        if create.reward.cap is not UNSET:
            given["cap"] = create.reward.cap
        if create.positions is not UNSET:
            swaps = create.positions.swaps
            given |= {"positions": create.positions.weights, "position_swaps": None if swaps is UNSET else swaps}
        try:
            if create.old_log is not UNSET:
                given["old_log"] = OldLog(**msgspec.to_builtins(create.old_log))
            if create.dimension is not UNSET:
                sizes = {"n_arms": len(self.names), "dimension": create.dimension, "budget": create.budget}
                if create.features is not UNSET:
                    given["context_bound"] = create.features.context_bound
                taken = parameters_of(kind)
                return kind(**{name: size for name, size in sizes.items() if name in taken}, **given)
            graph = _graph(create.feedback, self.names)
            if create.decisions is not UNSET:
                return kind(graph, decisions=_family(create.decisions, len(self.names)), **given)
            return kind(graph, create.budget, **given)
        except (TypeError, ValueError, NotImplementedError) as error:
            raise Refused("invalid", said(error)) from None


def _with_prior(create: Create, prior: str) -> Create:
    """Write down the prior of a guarded policy over a decision set that names none."""
    given = create.policy
    if create.decisions is UNSET or "prior" in given or given.get("kind", "guarded_thompson") != "guarded_thompson":
        return create
    return msgspec.structs.replace(create, policy={**given, "prior": prior})


def _facts(given: FeatureFacts) -> dict[str, Any]:
    """Return facts of features with all their parts."""
    facts: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(given))
    columns = [one[0] for kind in ("numeric", "categories", "hashed") for one in facts[kind]]
    return {"alone": columns, "n_columns": max(len(columns), 1), **facts}


def _graph(feedback: Feedback, names: list[str]) -> FeedbackGraph:
    n = len(names)
    if (feedback.sizes is not UNSET) != (feedback.kind == "cliques"):
        raise Refused("invalid", "feedback.sizes must be given for cliques, and for nothing else")
    if (feedback.edges is not UNSET) != (feedback.kind == "edges"):
        raise Refused("invalid", "feedback.edges must be given for edges, and for nothing else")
    if feedback.kind == "cliques":
        sizes: list[int] = feedback.sizes  # type: ignore[assignment]
        if sum(sizes) != n:
            raise Refused("invalid", f"feedback.sizes must sum to the {n} arms, got {sum(sizes)}")
        return FeedbackGraph.cliques(sizes)
    if feedback.kind == "edges":
        index = {name: arm for arm, name in enumerate(names)}
        try:
            pairs = [(index[one], index[other]) for one, other in feedback.edges]  # type: ignore[union-attr]
        except KeyError as error:
            text = f"feedback.edges has {quoted(error.args[0])}, which is not among arms"
            raise Refused("unknown_arm", text) from None
        return FeedbackGraph.from_edges(n, np.array(pairs, np.int64).reshape(-1, 2))
    return FeedbackGraph.full_information(n) if feedback.kind == "full_information" else FeedbackGraph.semi_bandit(n)


def _family(family: DecisionFamily, n_arms: int) -> DecisionSet:
    kind: Callable[..., DecisionSet] = SETS[family.kind]
    accepted = [name for name in parameters_of(kind) if name in family.__struct_fields__]
    given = {
        name: getattr(family, name)
        for name in family.__struct_fields__
        if name != "kind" and getattr(family, name) is not UNSET
    }
    if odd := [name for name in given if name not in accepted]:
        raise Refused("invalid", f"decisions of kind {family.kind} take {', '.join(accepted)}, got {', '.join(odd)}")
    if family.kind == "explicit":
        given["n_arms"] = n_arms
    made = kind(**given)
    if made.n_arms != n_arms:
        raise Refused("invalid", f"decisions are about {made.n_arms} arms, and arms has {n_arms}")
    return made

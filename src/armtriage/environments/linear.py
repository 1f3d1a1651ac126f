"""Arms described by vectors that may change every round, with rewards linear in them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from armtriage._arguments import (
    DIRECTIONS,
    LONGEST,
    as_numbers,
    check_arms,
    check_choice,
    check_count,
    check_flag,
    check_number,
    check_range,
)
from armtriage.environments.protocol import cached_stream
from armtriage.environments.tables import (
    CONTEXTS,
    FIXED,
    GIVEN,
    LINEAR_LAWS,
    LinearTable,
    draw_linear,
    fill_contexts,
    loss_linear,
    means_in,
)
from armtriage.graphs import FeedbackGraph
from armtriage.kernels.jit import kernel
from armtriage.kernels.random import check_seed, row_of, uniform
from armtriage.kernels.record import Floats, Ints

_MOST = 1.0 + 1e-6  # norms up to here pass as 1: room for single precision
_TABLE_SIZE = 2**21
_NOISES = ("independent", "shared")


@kernel
def _draw_all(table: LinearTable, luck: np.uint64, means: Floats, arms: Ints) -> Floats:
    rewards = np.empty(arms.size)
    for i in range(arms.size):
        rewards[i] = draw_linear(table, luck, means[arms[i]], arms[i])
    return rewards


class LinearEnvironment:
    """Arms with a vector each round, the context, whose product with a hidden `theta` is the mean reward.

    Contexts and rewards are looked up in virtual tables: they depend on the seed, the replication, the round and the
    arm alone. Contexts have norms of at most 1 and rewards lie in `reward_range`. A decision reveals its own arms.

    Parameters
    ----------
    theta : array_like
        (d,) the hidden vector, with a norm of at most `norm_bound` times the largest reward.
    contexts : str, array_like or callable
        ``"sphere"`` (drawn in each round, uniform on the unit sphere), ``"cube"`` (coordinates uniform between
        -1/sqrt(d) and 1/sqrt(d)), an array (K, d) for all rounds or (rounds, K, d), or a function of the round and the
        replication that returns (K, d). The function must be pure; `simulate` may call it from several threads.
    n_arms : int, optional
        K, which an array of contexts tells by itself.
    reward : str
        Law of a reward with mean m: ``"binary"`` (one end of the range or the other), ``"uniform"`` (between
        m - half_width and m + half_width), ``"deterministic"`` (always m) or, for clicks, ``"bernoulli"`` (1 with
        probability m, else 0). Means beyond what rewards can be are cut off, and then are not linear.
    half_width : float, optional
        For uniform rewards; by default as wide as the norm of `theta` allows.
    noise : str
        ``"independent"``, or ``"shared"`` if all arms have the same noise in a round.
    context_bound : float
        Largest norm in given contexts, which are divided by it.
    norm_bound : float
        Largest norm of `theta`, in units of the largest reward.
    reward_range : tuple of float
        Smallest and largest possible reward, ``(-r, r)``; theta, means, rewards and regret are in these units. That of
        clicks is always (0, 1).
    direction : {"maximize", "minimize"}
        With ``"minimize"`` rewards are costs: regret is what a decision costs more than the cheapest.
    seed : int, optional
        Fixes all contexts and rewards; None draws a fresh one, kept in `seed`.

    Examples
    --------
    >>> env = LinearEnvironment([0.6, 0.3], "sphere", n_arms=3, seed=7)
    >>> env.contexts(0).shape
    (3, 2)
    >>> env.rewards(0, [0, 2])
    array([1., 1.])
    >>> best = env.means(0).argsort()[-2:]
    >>> env.regret(0, best)
    0.0
    """

    def __init__(
        self,
        theta: ArrayLike,
        contexts: str | ArrayLike | Callable[[int, int], ArrayLike] = "sphere",
        n_arms: int | None = None,
        reward: str = "binary",
        *,
        half_width: float | None = None,
        noise: str = "independent",
        context_bound: float = 1.0,
        norm_bound: float = 1.0,
        reward_range: tuple[float, float] = (-1.0, 1.0),
        direction: str = "maximize",
        seed: int | None = None,
    ) -> None:
        self.theta = _numbers("theta", theta)
        if self.theta.ndim != 1 or not self.theta.size:
            raise ValueError(f"theta must have shape (d,) with a coordinate or more, got {self.theta.shape}")
        self.reward_range, self.direction = check_range(reward_range), check_choice("direction", direction, DIRECTIONS)
        most = self.reward_range[1]
        if self.reward_range[0] != -most:
            # Anything else would have to be shifted, which does not leave rewards linear.
            raise ValueError(f"reward_range must be (-r, r) for linear rewards, got {reward_range!r}")
        norm = math.hypot(*self.theta)
        self.norm_bound = check_number("norm_bound", norm_bound, positive=True)
        if not norm <= _MOST * most * self.norm_bound:
            raise ValueError(f"theta must be finite with norm at most {most * self.norm_bound:g}, got norm {norm}")
        self.reward = check_choice("reward", reward, LINEAR_LAWS)
        if reward == "bernoulli":
            if self.reward_range != (-1.0, 1.0) or direction != "maximize":
                raise ValueError(
                    f"reward_range and direction must be left out for clicks, got {reward_range!r}, {direction!r}"
                )
            self.reward_range = (0.0, 1.0)
        self.half_width = _check_half_width(half_width, reward, norm, most)
        self.noise = check_choice("noise", noise, _NOISES)
        self.context_bound = check_number("context_bound", context_bound, positive=True)
        self.seed = check_seed(seed)
        n_arms = None if n_arms is None else check_count("n_arms", n_arms, 1)
        self._function: Callable[[int, int], ArrayLike] | None = None
        given = np.zeros((0, 0, 0))
        if isinstance(contexts, str):
            kind = CONTEXTS.index(check_choice("contexts", contexts, CONTEXTS))
            if self.context_bound != 1.0:
                raise ValueError(f"context_bound is for given contexts and must be 1.0 here, got {context_bound!r}")
        elif callable(contexts):
            kind, self._function = GIVEN, contexts
        else:
            kind, given = self._check_array(contexts)
            if n_arms not in (None, given.shape[1]):
                raise ValueError(f"n_arms must be None or {given.shape[1]}, as many as contexts has, got {n_arms!r}")
            n_arms = given.shape[1]
        if n_arms is None:
            raise ValueError("n_arms must be a whole number from 1 unless contexts is an array, got None")
        self.graph = FeedbackGraph.semi_bandit(n_arms)
        law, width = LINEAR_LAWS[reward], (self.half_width or 0.0) / most
        self._sign = 1.0 if self.direction == "maximize" else -1.0
        gains = self._sign * self.theta / most
        self._table = LinearTable(kind, gains, given, 0, law, width, noise == "shared", most, np.zeros((0, 0)))
        self.resample = False
        self._last: tuple[tuple[int, int], Floats, Floats] | None = None

    @classmethod
    def from_record(
        cls,
        contexts: ArrayLike,
        outcomes: ArrayLike,
        *,
        resample: bool = False,
        context_bound: float = 1.0,
        reward_range: tuple[float, float] = (0.0, 1.0),
        direction: str = "maximize",
        seed: int | None = None,
    ) -> Self:
        """Return a world of recorded contexts and rewards, which need not be linear; no hidden vector is known.

        Regret is against the best arms of each round by its own outcomes, as if they had been known: of labels to be
        guessed, the number of wrong answers.

        Parameters
        ----------
        contexts : array_like
            (rounds, K, d): what is known of each arm in each round.
        outcomes : array_like
            (rounds, K): what each arm would have paid.
        resample : bool
            Draw a round of the record for each round, with replacement, instead of playing them in order.
        context_bound : float
            Largest norm in the contexts, which are divided by it.
        reward_range : tuple of float
            Smallest and largest possible outcome.
        direction : {"maximize", "minimize"}
            With ``"minimize"`` outcomes are costs.
        seed : int, optional
            Fixes the rounds that `resample` draws.

        Examples
        --------
        >>> record = LinearEnvironment.from_record([[[1, 0], [0, 1]], [[0, 1], [1, 0]]], [[1, 0], [0, 1]])
        >>> record.contexts(1)[0], record.rewards(1, [0, 1]), record.regret(1, [0])
        (array([0., 1.]), array([0., 1.]), 1.0)
        """
        given = _numbers("contexts", contexts)
        if given.ndim != 3 or not given.size:
            raise ValueError(f"contexts must have shape (rounds, K, d), one or more of each, got {given.shape}")
        made = cls(np.zeros(given.shape[2]), given, reward="deterministic", context_bound=context_bound, seed=seed)
        made.reward_range, made.direction = check_range(reward_range), check_choice("direction", direction, DIRECTIONS)
        made.resample, made.reward = check_flag("resample", resample), "recorded"
        low, high = made.reward_range
        table = _numbers("outcomes", outcomes)
        if table.shape != given.shape[:2]:
            raise ValueError(f"outcomes must have shape {given.shape[:2]} like contexts, got {table.shape}")
        for number, arm in np.argwhere(~((table >= low) & (table <= high)))[:1]:
            accepted = f"outcomes must lie in [{low:g}, {high:g}]"
            raise ValueError(f"{accepted}, got {table[number, arm]} in round {number} for arm {arm}")
        made._sign, most = 1.0 if direction == "maximize" else -1.0, max(abs(low), abs(high))
        made._table = made._table._replace(outcomes=made._sign * table / most, scale=most)
        return made

    @property
    def n_arms(self) -> int:
        """Number of arms."""
        return self.graph.n_arms

    @property
    def dimension(self) -> int:
        """Number of coordinates of a context."""
        return self.theta.size

    @property
    def n_rounds(self) -> int | None:
        """Number of rounds with contexts, or None if there is no end."""
        given = self._table.kind == GIVEN and self._function is None and not self.resample
        return self._table.given.shape[0] if given else None

    @property
    def noise_scale(self) -> float:
        """A sigma for which the noise is sigma-sub-Gaussian, whatever the means."""
        low, most = self.reward_range
        if self.reward == "recorded":
            return (most - low) / 2
        uniform = (self.half_width or 0.0) / 3**0.5
        return {"binary": most, "uniform": uniform, "deterministic": 0.0, "bernoulli": 0.5}[self.reward]

    def contexts(self, round: int, replication: int = 0) -> Floats:
        """Return a copy of the (K, d) contexts of a round; their norms are at most 1."""
        return self._look_up(*self._place(round, replication))[0].copy()

    def means(self, round: int, replication: int = 0) -> Floats:
        """Return the mean reward of each arm in a round."""
        return self._told(self._look_up(*self._place(round, replication))[1])

    def _told(self, gains: Floats) -> Floats:
        """Return what is told for gains in [-1, 1]."""
        return self._sign * (gains * self._table.scale)

    def rewards(self, round: int, arms: ArrayLike, replication: int = 0) -> Floats:
        """Return the reward of each of `arms`: same arguments, same floats, in any order of asking."""
        number, replication = self._place(round, replication)
        chosen, luck = check_arms(arms, self.n_arms), row_of(self.luck(replication), number)
        return self._told(_draw_all(self._table, luck, self._look_up(number, replication)[1], chosen))

    def regret(self, round: int, arms: ArrayLike, replication: int = 0) -> float:
        """Return the expected loss in a round against the best decision of that size; exactly 0 for that."""
        place, decision = self._place(round, replication), check_arms(arms, self.n_arms, once=True)
        return float(loss_linear(self._look_up(*place)[1], decision, np.empty(self.n_arms)) * self._table.scale)

    @property
    def rounds_per_table(self) -> int:
        """How many rounds one `table` can hold; few for a function, whose contexts must all be there beforehand."""
        whole = self._function is None and not self.resample
        return LONGEST if whole else max(1, _TABLE_SIZE // (self.n_arms * self.dimension))

    def table(self, replication: int, first: int, stop: int) -> LinearTable:
        """Return the view for compiled code of the rounds from `first` up to but excluding `stop`."""
        if self.n_rounds is not None and stop > self.n_rounds:
            raise ValueError(f"horizon must be at most the {self.n_rounds} rounds of contexts, got {stop}")
        if self.resample:
            rows = [self._row(number, replication) for number in range(first, stop)]
            return self._table._replace(given=self._table.given[rows], outcomes=self._table.outcomes[rows], first=first)
        if self._function is None:
            return self._table
        given = np.empty((stop - first, self.n_arms, self.dimension))
        for number in range(first, stop):
            given[number - first] = self._call(number, replication)
        return self._table._replace(given=given, first=first)

    def luck(self, replication: int) -> np.uint64:
        """Return the start of the replication's reward stream, for compiled code."""
        return cached_stream(self.seed, "reward", replication)

    def context_luck(self, replication: int) -> np.uint64:
        """Return the start of the replication's context stream, for compiled code."""
        return cached_stream(self.seed, "context", replication)

    def _place(self, round: int, replication: int) -> tuple[int, int]:
        number, replication = check_count("round", round), check_count("replication", replication)
        if self.n_rounds is not None and number >= self.n_rounds:
            raise ValueError(f"round must lie in 0..{self.n_rounds - 1}, the rounds of contexts, got {round!r}")
        return number, replication

    def _look_up(self, number: int, replication: int) -> tuple[Floats, Floats]:
        """Return contexts and means; the last ones are kept, since a player asks for them again and again."""
        key = (0, 0) if self._table.kind == FIXED else (number, replication)
        last = self._last
        if last is None or last[0] != key:
            contexts, means = self._find(*key), np.empty(self.n_arms)
            means_in(self._table, self._row(*key), contexts, means)
            self._last = last = (key, contexts, means)
        return last[1:]

    def _row(self, number: int, replication: int) -> int:
        """Return the round of the record that is played in a round."""
        if not self.resample:
            return number
        drawn = uniform(row_of(self.context_luck(replication), number), 0)
        return int(drawn * self._table.given.shape[0])

    def _find(self, number: int, replication: int) -> Floats:
        if self._function is not None:
            return self._call(number, replication)
        if self._table.kind in (FIXED, GIVEN):
            return np.asarray(self._table.given[self._row(number, replication)])
        contexts = np.empty((self.n_arms, self.dimension))
        fill_contexts(self._table.kind, row_of(self.context_luck(replication), number), contexts)
        return contexts

    def _call(self, number: int, replication: int) -> Floats:
        assert self._function is not None
        where = f" in round {number} of replication {replication}"
        contexts = _numbers("contexts", self._function(number, replication), where)
        if contexts.shape != (self.n_arms, self.dimension):
            raise ValueError(f"contexts must have shape ({self.n_arms}, {self.dimension}), got {contexts.shape}{where}")
        return self._scale(contexts, where)

    def _check_array(self, contexts: ArrayLike) -> tuple[int, Floats]:
        given, d = _numbers("contexts", contexts), self.dimension
        if given.ndim not in (2, 3) or given.shape[-1] != d or not given.size:
            raise ValueError(f"contexts must have shape (K, {d}) or (rounds, K, {d}) like theta, got {given.shape}")
        return (FIXED, self._scale(given)[np.newaxis]) if given.ndim == 2 else (GIVEN, self._scale(given))

    def _scale(self, contexts: Floats, where: str = "") -> Floats:
        """Divide contexts by their bound in place, or refuse them."""
        with np.errstate(over="ignore", invalid="ignore"):
            contexts /= self.context_bound
            rows = contexts.reshape(-1, self.dimension)
            squares = np.einsum("ij,ij->i", rows, rows)
        bad = np.flatnonzero(~(squares <= _MOST**2))
        if bad.size:
            number, arm = divmod(int(bad[0]), contexts.shape[-2])
            where = where or (f" in round {number}" if contexts.ndim == 3 else "")
            norm = math.hypot(*rows[bad[0]]) * self.context_bound
            raise ValueError(
                f"contexts must be finite with norms at most context_bound = {self.context_bound}, "
                f"got norm {norm} for arm {arm}{where}"
            )
        return contexts

    def __repr__(self) -> str:
        kind = "function" if self._function is not None else (*CONTEXTS, "fixed", "given")[self._table.kind]
        kind = "recorded" if self.reward == "recorded" else kind
        return f"LinearEnvironment({self.n_arms} arms, dimension={self.dimension}, contexts={kind!r}, seed={self.seed})"


def _numbers(name: str, value: object, where: str = "") -> Floats:
    """Return an own C-contiguous array of floats."""
    return np.array(as_numbers(name, value, where), dtype=np.float64, order="C")


def _check_half_width(half_width: float | None, reward: str, norm: float, most: float) -> float | None:
    if reward != "uniform":
        if half_width is not None:
            raise ValueError(f"half_width is for reward='uniform' and must be None here, got {half_width!r}")
        return None
    if half_width is None and norm >= most:
        room = f"to leave room for uniform rewards in [{-most:g}, {most:g}]"
        raise ValueError(f"theta must have norm below {most:g} {room}, got norm {norm}")
    width = most - norm if half_width is None else check_number("half_width", half_width, positive=True)
    if norm + width > _MOST * most:
        raise ValueError(f"half_width must be at most {most:g} - the norm of theta = {most - norm}, got {half_width!r}")
    return width

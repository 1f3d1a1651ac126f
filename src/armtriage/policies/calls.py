"""The calls from Python into a slate policy's compiled code, each of which hands over one address.

``choose(params, evidence, own, request) -> committed`` fills ``request.arms[:request.size]`` with candidates of the
request, in any order, and returns whether that can never change again. ``learn(params, evidence, own, request, seen,
rewards, event)`` brings the caches in `own` in line with the evidence of the arms `seen`, which `event` happened to.
``believe(params, evidence, own, request)`` writes what was believed of the arms chosen. The same kernels run in `ask`
and `tell` and in the loop of `simulate`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage.kernels.jit import Opener, bind, compile_now, inlined, kernel, unbound
from armtriage.kernels.order import sort_arms
from armtriage.kernels.record import Record, RecordLayout
from armtriage.policies.evidence import (
    LOST,
    TOLD,
    UNSEEN,
    WEIGHED,
    Evidence,
    count_played,
    lose,
    part,
    record,
    schedule,
    settle,
    unsee,
)
from armtriage.policies.request import ALL, Request, begin, count_candidates, expose, list_candidates

RAW, CLOSE, PASS, TEACH, WEIGH = range(5)

open_post = choose = learn = believe = expect = settled = weigh = unbound
"""What `bind` replaces: how a post is found by its address, and the kernels of a policy."""


class Kernels(NamedTuple):
    """The compiled functions of a policy."""

    choose: Callable[..., bool]
    learn: Callable[..., None]
    believe: Callable[..., None]
    expect: Callable[..., None] | None = None
    """``expect(params, evidence, own, arms)`` is told that rewards of arms are on their way, where that matters."""
    weigh: Callable[..., None] | None = None
    """``weigh(params, evidence, own, request, offset, weights)`` writes a weight for each arm, by the sum of which a
    decision of a set is chosen."""
    settled: Callable[..., None] | None = None
    """``settled(params, evidence, own, request, seen)`` is told that rewards of arms have been settled."""


class Post(Record):
    """Everything that a policy works on between two calls from Python, which hand it over as one address."""

    params: Record
    evidence: Evidence
    own: Record
    request: Request


def name_of(kernels: Kernels) -> str:
    """Return a name for machine code that is made of a policy's kernels: where the first of them comes from."""
    return kernels.choose.__module__.replace(".", "_")


@kernel
def learn_nothing(
    params: Any,
    evidence: Evidence,
    own: Any,
    request: Request,
    seen: NDArray[np.int64],
    rewards: NDArray[np.float64],
    event: int,
) -> None:
    """Keep no caches that would have to follow the evidence: `learn` of some policies."""


@kernel
def believe_means(params: Any, evidence: Evidence, own: Any, request: Request) -> None:
    """Write the means of the arms chosen: `believe` of policies that go by intervals."""
    for i in range(request.size):
        arm = request.arms[i]
        request.beliefs[0, i] = evidence.sums[arm] / max(evidence.counts[arm], 1)


@kernel
def _expect_nothing(params: Any, evidence: Evidence, own: Any, arms: NDArray[np.int64]) -> None:
    pass


@kernel
def settle_nothing(params: Any, evidence: Evidence, own: Any, request: Request, seen: NDArray[np.int64]) -> None:
    """Do nothing when rewards are settled."""


@inlined
def decide(params: Any, evidence: Evidence, own: Any, request: Request) -> bool:
    """Fill `arms` with the policy's choice, or with all candidates where they are no more than there are slots."""
    if request.size < request.n:
        return choose(params, evidence, own, request)  # type: ignore[no-any-return]
    list_candidates(evidence, request)
    for i in range(request.n):
        request.arms[i] = request.among[i]
    return False


def _ask(address: int, number: int, epoch: int, own: bool) -> int:
    """Choose among the candidates; where the arms are what is revealed and `own`, count and schedule them, too.

    Return how many candidates there are; if there are none, nothing has changed.
    """
    post = open_post(address)
    evidence, request = post.evidence, post.request
    n: int = evidence.n_arms
    if epoch != ALL:
        n = count_candidates(evidence, request)
        if n == 0:
            return 0
    begin(request, number, ALL if n == evidence.n_arms else epoch, n)
    decide(post.params, evidence, post.own, request)
    arms = request.arms[: request.size]
    sort_arms(arms)
    believe(post.params, evidence, post.own, request)
    if own:
        expose(evidence, request)
        schedule(evidence, arms)
        expect(post.params, evidence, post.own, arms)
    return n


def _note(address: int, epoch: int, size: int, shown: int) -> None:
    """Count the first arms of the request as a decision, if there are any, and schedule the first arms seen."""
    post = open_post(address)
    evidence, request, seen = post.evidence, post.request, post.request.seen[:shown]
    if size > 0:
        request.epoch, request.size = epoch, size
        expose(evidence, request)
    schedule(evidence, seen)
    expect(post.params, evidence, post.own, seen)


@kernel
def _to_unit(request: Request, n: int) -> int:
    """Map the first n rewards to [0, 1]; return -1, or the place of one that is out of range: then none has changed."""
    rewards, zero, width = request.rewards, request.zero, request.width
    for i in range(n):
        if not request.low <= rewards[i] <= request.high:
            return i
    if zero != 0.0 or width != 1.0:
        for i in range(n):
            rewards[i] = min(1.0, max(0.0, (rewards[i] - zero) / width))
    return -1


@kernel
def _weigh(evidence: Evidence, seen: NDArray[np.int64], weights: NDArray[np.float64]) -> None:
    """Let arms count so many least rewards beside those told, and put in their place by how much that is more."""
    evidence.weighed = 1
    for i in range(seen.size):
        weight = weights[i]
        weights[i] -= evidence.unheard[seen[i]]
        evidence.unheard[seen[i]] = weight


def _tell(address: int, number: int, known: int, told: int, n: int, mode: int) -> int:
    """Take rewards of a decision, or weights of arms; return -1, or the place of a reward that is out of range.

    Of the n arms that are seen, the first `known` were told before, and the rewards of those from `told` on are lost;
    with the mode `PASS`, these were not looked at.
    """
    post = open_post(address)
    evidence, own, request = post.evidence, post.own, post.request
    seen, rewards = request.seen, request.rewards
    if mode == RAW:
        bad = _to_unit(request, told)
        if bad >= 0:
            return bad
    request.number = number
    if mode == WEIGH:
        _weigh(evidence, seen[:told], rewards[:told])
    else:
        if mode == TEACH:
            part(evidence)
        record(evidence, request.stream, number, seen[known:told], rewards[known:told])
    first, last, event = known, told, WEIGHED if mode == WEIGH else TOLD
    while True:
        learn(post.params, evidence, own, request, seen[first:last], rewards[first:last], event)
        if last == n:
            break
        if mode == PASS:
            unsee(evidence, seen[told:n])
        else:
            lose(evidence, seen[told:n])
        first, last, event = told, n, UNSEEN if mode == PASS else LOST
    if mode <= PASS:
        settle(evidence, seen[:told], rewards[:told])
        if evidence.played_counts.size > 0:
            count_played(evidence, request.arms[: request.size], seen[:told], rewards[:told])
        settled(post.params, evidence, own, request, seen[:told])
    return -1


class Entries(NamedTuple):
    """What Python calls: kernels that take the address of a post."""

    ask: Callable[..., int]
    note: Callable[..., None]
    tell: Callable[..., int]


@cache
def entries_for(kernels: Kernels, kind: RecordLayout) -> Entries:
    """Return the entries for a policy's kernels, compiled: no call compiles anything later."""
    name, find, noted = name_of(kernels), Opener(kind), kernels.expect or _expect_nothing
    one = bind(decide, f"decide_{name}", choose=kernels.choose)
    entries = Entries(
        bind(_ask, f"ask_{name}", open_post=find, decide=one, believe=kernels.believe, expect=noted),
        bind(_note, f"note_{name}", open_post=find, expect=noted),
        bind(_tell, f"tell_{name}", open_post=find, learn=kernels.learn, settled=kernels.settled or settle_nothing),
    )
    compile_now(entries.ask, int, int, int, bool)
    compile_now(entries.note, int, int, int, int)
    compile_now(entries.tell, int, int, int, int, int, int)
    return entries

"""Request: what an ask or a tell hands to a kernel, and the calls from Python that hand it over by its address.

A request names its candidates by a byte for each arm, not by a list: to list 500 arms costs more than to choose among
them. Its *epoch* says what may be kept between requests: candidates of epoch 0 are all arms, those of epoch -1 are any.

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

from armtriage.graphs.feedback import FeedbackGraph, GraphArrays, reveal
from armtriage.kernels.jit import Opener, bind, compile_now, inlined, kernel, unbound
from armtriage.kernels.order import sort_arms
from armtriage.kernels.random import row
from armtriage.kernels.record import Floats, Ints, Record, RecordLayout, blank
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

ALL, SOME = 0, -1
"""Epochs of requests: all arms may be chosen, or some of them."""


class Request(Record):
    """One decision: its candidates, and room for what comes back."""

    mask: NDArray[np.uint8]  # (room,) 1 for candidates, if the epoch is not `ALL`
    words: NDArray[np.uint64]  # the same memory, eight arms a word
    bits: NDArray[np.uint8]  # (room / 8,) the same as bits, the first arm in the highest
    among: Ints  # (room,) the candidates ascending, once they are `listed`
    arms: Ints  # (S,) the decision
    beliefs: Floats  # (4, S) or (1, S), see `Decision.ranked`
    seen: Ints  # (room,) arms whose rewards are told, then those whose rewards will not come
    rewards: Floats  # (room,)
    stream: NDArray[np.uint64]  # (1,) where the policy's random numbers come from, see `luck_of`
    graph: GraphArrays  # which arms a decision reveals; of no arms where that is the decision itself
    stamps: NDArray[Any]  # (K,) int32: the last round in which an arm was revealed
    number: int
    epoch: int
    n: int  # candidates
    size: int  # of the decision
    listed: int  # whether `among` is written
    shown: int  # arms that the decision reveals, the first that are `seen`
    sleepers: bool  # whether it also reveals arms that are no candidates
    identity: int  # how many numbers from 0 on stand in it, each in its own place
    low: float  # of rewards, as they are told
    high: float
    zero: float  # the reward that is 0 on the unit scale
    width: float  # from there to 1, below 0 for costs

    def hold(self, arms: Ints) -> None:
        """Put in the arms of a decision that was made before."""
        n = arms.size
        self.whole[_SIZE] = n  # a third of what `self.size = n` takes
        self.arms[:n] = arms


_SIZE = Request._numbers["size"].place
_MARKS = 2**31 - 2


def new_request(
    room: int,
    arms: Ints,
    stream: Any,
    rows: int,
    scale: tuple[float, ...],
    graph: FeedbackGraph | None = None,
    *,
    sleepers: bool = False,
) -> Request:
    """Return an empty request; `scale` is its last four numbers, and the graph is None if arms reveal themselves."""
    mask, alone = np.zeros(room, np.uint8), np.zeros(0, np.int32)
    shows = GraphArrays(alone, alone, np.zeros(1, np.int64), alone) if graph is None else graph.arrays
    return blank(
        Request,
        room,
        mask=mask,
        words=mask.view(np.uint64),
        bits=np.zeros(room // 8, np.uint8),
        arms=arms,
        beliefs=np.zeros((rows, arms.size)),
        stream=np.array([stream], np.uint64),
        graph=shows,
        stamps=np.zeros(shows.start.size, np.int32),
        sleepers=sleepers,
        size=arms.size,
        **dict(zip(("low", "high", "zero", "width"), scale, strict=True)),
    )


@kernel
def count_candidates(evidence: Evidence, request: Request) -> int:
    """Return how many arms the mask has, and write it as bits."""
    n, mask, words = 0, request.mask[: evidence.n_arms], request.words[: (evidence.n_arms + 7) >> 3]
    for arm in range(mask.size):
        n += int(mask[arm])
    for w in range(words.size):
        # Eight bytes that are 0 or 1 meet in the lowest, each in a bit of its own.
        word = words[w] << np.uint64(7)
        word |= word >> np.uint64(9)
        word |= word >> np.uint64(18)
        word |= word >> np.uint64(36)
        request.bits[w] = word & np.uint64(255)
    return n


@kernel
@inlined
def begin(request: Request, number: int, epoch: int, n: int) -> None:
    """Begin the request of a round with n candidates, which the mask has unless they are all arms."""
    request.number, request.epoch, request.n, request.listed = number, epoch, n, 0
    request.size = min(n, request.arms.size)


@kernel
@inlined
def luck_of(request: Request) -> np.uint64:
    """Return where the random numbers of this round begin: ``uniform(luck_of(request), column)`` is one of them."""
    return row(request.stream[0], request.number)


@kernel
@inlined
def is_candidate(request: Request, arm: int) -> bool:
    """Whether an arm may be chosen."""
    return request.epoch == ALL or bool(request.mask[arm] > 0)


@kernel
def list_candidates(evidence: Evidence, request: Request) -> None:
    """Write the candidates into `among`, ascending, if that has not been done."""
    if request.listed > 0:
        return
    n = 0
    if request.epoch == ALL:
        for arm in range(request.identity, evidence.n_arms):
            request.among[arm] = arm
        request.identity = evidence.n_arms
    else:
        request.identity = 0
        mask, among = request.mask, request.among
        for w in range((evidence.n_arms + 7) >> 3):
            if request.words[w] != 0:
                # No branch on one arm could be predicted.
                for arm in range(8 * w, 8 * w + 8):
                    among[n] = arm
                    n += int(mask[arm])
    request.listed = 1


@kernel
def expose(evidence: Evidence, request: Request) -> None:
    """Count a decision, and who was a candidate: one number for all arms, and one for each arm otherwise."""
    if request.epoch == ALL:
        evidence.rounds += 1
    else:
        exposures, mask = evidence.exposures[: evidence.n_arms], request.mask[: evidence.n_arms]
        for arm in range(exposures.size):
            exposures[arm] += mask[arm]
    for i in range(request.size):
        evidence.pulls[request.arms[i]] += 1


@kernel
def _show_arms(request: Request) -> Ints:
    """Return what a decision reveals where that is the decision itself."""
    return request.arms[: request.size]


@kernel
def _show_revealed(request: Request) -> Ints:
    """Return what a decision reveals, ascending, in `seen`; arms that are no candidates only if sleepers are seen."""
    seen, mark = request.seen, request.number % _MARKS + 1
    if mark == 1:
        request.stamps[:] = 0
    n = reveal(request.graph, request.arms[: request.size], request.stamps, mark, seen)
    if request.epoch != ALL and not request.sleepers:
        m = 0
        for i in range(n):
            seen[m] = seen[i]
            m += int(request.mask[seen[i]])
        n = m
    sort_arms(seen[:n])
    request.shown = n
    return seen[:n]


RAW, CLOSE, PASS, TEACH, WEIGH = range(5)

open_post = choose = learn = believe = expect = settled = weigh = show = unbound
"""What `bind` replaces: how a post is found by its address, the kernels of a policy, and what a decision reveals."""


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
    params: Any, evidence: Evidence, own: Any, request: Request, seen: Ints, rewards: Floats, event: int
) -> None:
    """Keep no caches that would have to follow the evidence: `learn` of some policies."""


@kernel
def believe_means(params: Any, evidence: Evidence, own: Any, request: Request) -> None:
    """Write the means of the arms chosen: `believe` of policies that go by intervals."""
    for i in range(request.size):
        arm = request.arms[i]
        request.beliefs[0, i] = evidence.sums[arm] / max(evidence.counts[arm], 1)


@kernel
def _expect_nothing(params: Any, evidence: Evidence, own: Any, arms: Ints) -> None:
    pass


@kernel
def settle_nothing(params: Any, evidence: Evidence, own: Any, request: Request, seen: Ints) -> None:
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
    """Choose among the candidates; if the decision is `own`, count it, and schedule what it reveals, too.

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
        seen = show(request)
        schedule(evidence, seen)
        expect(post.params, evidence, post.own, seen)
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
def _weigh(evidence: Evidence, seen: Ints, weights: Floats) -> None:
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
def entries_for(kernels: Kernels, kind: RecordLayout, *, alone: bool) -> Entries:
    """Return the entries for a policy's kernels, compiled: no call compiles anything later.

    If all arms reveal themselves `alone`, nothing else is compiled for them.
    """
    name, find, noted = name_of(kernels), Opener(kind), kernels.expect or _expect_nothing
    shown, asks = (_show_arms, f"ask_{name}") if alone else (_show_revealed, f"ask_of_graph_{name}")
    one = bind(decide, f"decide_{name}", choose=kernels.choose)
    entries = Entries(
        bind(_ask, asks, open_post=find, decide=one, believe=kernels.believe, expect=noted, show=shown),
        bind(_note, f"note_{name}", open_post=find, expect=noted),
        bind(_tell, f"tell_{name}", open_post=find, learn=kernels.learn, settled=kernels.settled or settle_nothing),
    )
    compile_now(entries.ask, int, int, int, bool)
    compile_now(entries.note, int, int, int, int)
    compile_now(entries.tell, int, int, int, int, int, int)
    return entries

"""The command `warm`: compile kernels ahead of the first decision, for container images."""

from __future__ import annotations

import contextlib
import time
from typing import Annotated, Any

import numpy as np
import typer

from armtriage.catalogue import POLICIES, make_instance, make_policy, policy_kinds, unknown
from armtriage.cli.terminal import offering, print_json, refusing, say
from armtriage.environments import LinearEnvironment
from armtriage.kernels.disk import cache_folder
from armtriage.kernels.record import Ints
from armtriage.policies import Policy
from armtriage.simulation import simulate

# The smallest instances that go through every kernel: slates, sets of decisions, and contexts.
_INSTANCES = {
    "budget": "random:n_arms=3,budget=2",
    "decisions": "assignment:left=2,right=2",
    "contexts": "linear:n_arms=3,dimension=2,budget=2",
}


@refusing()
def warm(
    policies: Annotated[
        list[str] | None,
        typer.Argument(
            help=f"Any of {', '.join(POLICIES)}; by default all.",
            metavar="POLICY...",
            autocompletion=offering(POLICIES),
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")] = False,
) -> None:
    """Compile policies ahead of time, so that no one has to wait.

    The machine code is kept in a folder that is printed last, for this version of armtriage, of numba and this kind of
    processor. In a container image, run it while the image is built. An example:

    armtriage warm guarded_thompson thompson
    """
    chosen = list(dict.fromkeys(policies or POLICIES))
    for name in chosen:
        if name not in POLICIES:
            raise unknown("policy", name, POLICIES)
    folder, made = cache_folder(), []
    for name in chosen:
        began = time.process_time()
        _compile(name)
        made.append({"policy": name, "seconds": time.process_time() - began})
        if not as_json:
            say(f"{name}: {made[-1]['seconds']:.1f} s of CPU")
    if as_json:
        print_json({"cache": None if folder is None else str(folder), "policies": made})
    else:
        say(f"The kernels are in {folder}" if folder else "The kernels are not kept: no folder for them can be written")


def _compile(name: str) -> None:
    """Ask, tell and simulate once on every kind of instance that the policy plays, with whole and partial rewards."""
    for kind in policy_kinds(name):
        environment, budget = make_instance(_INSTANCES[kind], 2, 0)
        policy = make_policy(name, environment, budget, 2, 0)
        simulate(policy, environment, horizon=2, seed=0, workers=1)
        for number in range(2):
            contexts = (environment.contexts(number),) if isinstance(environment, LinearEnvironment) else ()
            decision = policy.ask(*contexts)
            rewards = environment.rewards(number, decision.revealed).tolist()
            told = dict(zip(decision.revealed.tolist(), rewards, strict=True))
            policy.tell(decision, told if number else dict(list(told.items())[:1]))
        _serve(policy, contexts, decision.arms)


def _serve(policy: Policy, contexts: tuple[Any, ...], arms: Ints) -> None:
    """Do what a service does beside: choose among some arms, decide several at once, certify, close, load, add arms."""
    refusals = (ValueError, TypeError, NotImplementedError)  # of what a policy cannot do
    mask = np.arange(policy.n_arms) > 0
    Policy.from_bytes(policy.to_bytes()).record(arms, *contexts)  # the last line loads otherwise
    with contextlib.suppress(*refusals):
        ask: Any = policy.ask
        for last in (False, True):
            decision = ask(*contexts, eligible=mask)
            policy.tell(decision, dict.fromkeys(decision.revealed[:1].tolist(), 0.0), last=last)
    if not contexts:
        policy.ask_many(2)[0].to_dict()
    with contextlib.suppress(*refusals):
        policy.certificate()
    policy.close_before(policy.asked)
    again = Policy.from_bytes(policy.to_bytes())
    again.record(arms, *contexts)
    with contextlib.suppress(*refusals):
        again.add_arms(1)
        again.certificate()

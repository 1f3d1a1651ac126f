"""Policies that play the arms of largest index."""

from armtriage.policies.index.comb_ucb1 import CombUCB1
from armtriage.policies.index.combinatorial_ucb import CombinatorialUCB
from armtriage.policies.index.greedy import Greedy
from armtriage.policies.index.kl_ucb import KLUCB

__all__ = ["KLUCB", "CombUCB1", "CombinatorialUCB", "Greedy"]

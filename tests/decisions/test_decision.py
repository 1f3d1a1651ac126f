"""A decision as a dictionary."""

import json

import numpy as np

from armtriage import C2UCB, CombUCB1, FeedbackGraph


def test_decision_is_a_dictionary_that_json_keeps():
    policy = CombUCB1(FeedbackGraph.cliques([2, 3]), budget=2, seed=7)
    decision = policy.ask()
    said = json.loads(json.dumps(decision.to_dict(), allow_nan=False))
    assert said["arms"] == decision.arms.tolist()
    assert said["revealed"] == decision.revealed.tolist()
    assert said["contexts"] is None
    policy.tell(said["number"], dict.fromkeys(said["revealed"], 1.0))
    assert policy.open_decisions == ()


def test_contexts_of_a_decision_are_lists():
    contexts = np.array([[0.9, 0.1], [0.2, 0.7], [0.0, 0.5]])
    decision = C2UCB(3, dimension=2, budget=2).ask(contexts)
    said = json.loads(json.dumps(decision.to_dict()))
    assert said["contexts"] == contexts[decision.arms].tolist()

"""Results that the tests of pages share, and figures that are not drawn."""

import pytest

from armtriage import Experiment, plots


@pytest.fixture(scope="session")
def swept():
    """A sweep over two parameters and three horizons."""
    environments = [{"instance": "random", "n_arms": [5, 10, 20], "budget": 2}]
    policies = ["comb_ucb1", "thompson", "random"]
    return Experiment(environments, policies, horizon=[50, 200, 800], replications=4, seed=7, name="Sweep").run()


@pytest.fixture
def undrawn(monkeypatch):
    """Figures are not drawn: in their place is what is written under them."""

    def said(ax):
        return f"<svg><text>[{' '.join(ax.figure.get_supxlabel().split())}]</text></svg>"

    monkeypatch.setattr(plots, "svg_text", said)

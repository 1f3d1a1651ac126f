"""What a release consists of can be installed: wheel and source archive, in clean environments, and the container."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
import urllib.request
import venv
from pathlib import Path

import pytest

from armtriage import __version__

ROOT = Path(__file__).parents[1]
PLAY = """
from armtriage import GuardedThompson, __version__
policy = GuardedThompson(4, budget=2, names=["tea", "milk", "jam", "rum"], seed=7)
for _ in range(50):
    decision = policy.ask()
    policy.tell(decision, {name: name == "tea" for name in decision.names})
print(__version__, "tea" in policy.ask().names)
"""


def clean(folder: Path, *installed: str) -> Path:
    """Make an environment with nothing but what is named, and return its folder of programs."""
    venv.create(folder, with_pip=True)
    programs = folder / ("Scripts" if sys.platform == "win32" else "bin")
    subprocess.run([programs / "python", "-m", "pip", "install", "--quiet", *installed], check=True, timeout=900)
    return programs


def said(*command: str | Path, **more: str) -> str:
    # Not in the checkout, and without its path: what is imported is what was installed.
    done = subprocess.run([*command], capture_output=True, text=True, timeout=600, env=more, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build wheel and source archive once."""
    folder = tmp_path_factory.mktemp("release")
    programs = clean(folder / "builder", "hatchling")
    command = [programs / "python", "-m", "hatchling", "build", "-d", folder / "dist"]
    subprocess.run(command, cwd=ROOT, check=True, timeout=300, capture_output=True)
    return folder / "dist"


@pytest.mark.long
def test_the_wheel_decides_without_extras(built: Path, tmp_path: Path) -> None:
    wheel = built / f"armtriage-{__version__}-py3-none-any.whl"
    programs = clean(tmp_path / "own", str(wheel))
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert said(programs / "python", "-I", "-c", PLAY, **home).split() == [__version__, "True"]
    assert "simulate" in said(programs / "armtriage", "-h", **home)
    served = subprocess.run(
        [programs / "armtriage", "serve", "--store", tmp_path / "x.db", "--create"], capture_output=True, text=True
    )
    assert served.returncode != 0
    assert "armtriage[serve]" in served.stderr + served.stdout


@pytest.mark.long
def test_the_source_archive_serves(built: Path, tmp_path: Path) -> None:
    archive = built / f"armtriage-{__version__}.tar.gz"
    programs = clean(tmp_path / "own", f"armtriage[serve] @ {archive.as_uri()}")
    command = [programs / "armtriage", "serve", "--store", tmp_path / "x.db", "--create", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=tmp_path)
    try:
        assert server.stdout is not None
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found
        for _ in range(100):
            with urllib.request.urlopen(f"{found[0]}/healthz", timeout=10) as answer:
                if answer.status == 200:
                    break
            time.sleep(0.1)
        with urllib.request.urlopen(f"{found[0]}/openapi.json", timeout=10) as answer:
            assert f'"{__version__}"' in answer.read().decode()
    finally:
        server.terminate()
        server.communicate(timeout=60)


@pytest.mark.long
def test_the_container_is_built_where_there_is_an_engine(tmp_path: Path) -> None:
    engine = shutil.which("podman") or shutil.which("docker")
    if engine is None or subprocess.run([engine, "info"], capture_output=True, timeout=60).returncode:
        pytest.skip("there is neither podman nor docker that works")
    command = [engine, "build", "--file", "examples/deploy/Containerfile", "--tag", "armtriage-test", "."]
    subprocess.run(command, cwd=ROOT, check=True, timeout=1800)
    shown = subprocess.run([engine, "run", "--rm", "armtriage-test", "armtriage", "--version"], capture_output=True)
    assert __version__ in shown.stdout.decode()


def test_constraints_have_what_the_package_needs_and_nothing_of_a_machine() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert {"numba", "numpy", "scipy", "rich", "typer", "uvicorn", "msgspec", "polars"} <= set(pinned)
    assert all(re.fullmatch(r"[\w.+!]+", version) for version in pinned.values())

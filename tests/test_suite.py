"""The suite itself: no property is tested against the clock, and it is tried as on a new machine."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parents[1]
INTEGRATION = ROOT / ".ci" / "run"


def _named_limits(path: Path) -> list[int]:
    """Return the lines on which a test asks Hypothesis for a deadline of its own."""
    calls = [one for one in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(one, ast.Call)]
    return [
        call.lineno
        for call in calls
        if ast.unparse(call.func).endswith("settings")
        for keyword in call.keywords
        if keyword.arg == "deadline" and ast.unparse(keyword.value) != "None"
    ]


def test_no_property_has_a_time_limit() -> None:
    """A first call compiles for seconds, so a limit passes only where kernels were compiled before."""
    assert settings().deadline is None
    assert HealthCheck.too_slow in settings().suppress_health_check
    assert {str(path): found for path in ROOT.glob("tests/**/*.py") if (found := _named_limits(path))} == {}


FAKE_MAKE = """#!/bin/sh
[ "$1" = test ] || exit 0
echo "$HOME" "$XDG_CACHE_HOME" "${NUMBA_CACHE_DIR:-unset}" $(ls -A "$HOME" | wc -l)
touch "$HOME/left-over"
exit 3
"""


@pytest.mark.skipif(
    not INTEGRATION.exists() or shutil.which("bash") is None, reason="a source distribution, or no bash"
)
def test_the_continuous_integration_has_an_empty_home_and_leaves_nothing(tmp_path: Path) -> None:
    for name, text in {"make": FAKE_MAKE, "chromium": "#!/bin/sh\n"}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "NUMBA_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run([INTEGRATION], env=environment, capture_output=True, text=True)
    assert done.returncode == 3, done.stderr
    home, cache, kept, entries = done.stdout.split()
    assert home != str(tmp_path)
    assert cache.startswith(home)
    assert (kept, entries) == ("unset", "0")
    assert not Path(home).exists()

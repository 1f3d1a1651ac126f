"""What the commands share."""

from armtriage.cli.terminal import say_if_cold
from armtriage.kernels import jit


def test_compilation_is_announced_once(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(jit, "JIT", True)
    monkeypatch.setattr(jit, "_CACHE", str(tmp_path))
    say_if_cold()
    assert "Compiling" in capsys.readouterr().err
    (tmp_path / "kernel.nbi").touch()
    say_if_cold()
    assert capsys.readouterr().err == ""

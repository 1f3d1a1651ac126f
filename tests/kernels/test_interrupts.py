"""Ctrl+C while something must not be left half done."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from armtriage.kernels.interrupts import hold_interrupts

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there are no such signals")


def test_an_interrupt_waits_for_the_end() -> None:
    done = []

    def work() -> None:
        with hold_interrupts():
            os.kill(os.getpid(), signal.SIGINT)
            done.append("all of it")

    # In the background of a shell interrupts are ignored, also by this process.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            work()
        assert done == ["all of it"]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_and_those_who_ignore_interrupts_are_left_alone() -> None:
    def look() -> None:
        with hold_interrupts():
            seen.append(signal.getsignal(signal.SIGINT))

    seen: list[object] = []
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    usual = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        look()
    finally:
        signal.signal(signal.SIGINT, usual)
    assert seen == [usual, signal.SIG_IGN]

# SPDX-License-Identifier: Apache-2.0
"""The loop's clock, on a clock of the test's own."""

import os
import selectors
import signal
from collections.abc import Callable

import pytest

from ltp_switcher.daemon.service import loop as loop_module
from ltp_switcher.daemon.service.loop import Signals, StepLoop


class Clock:
    """Time that passes only where the test lets it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        monkeypatch.setattr(loop_module.time, "monotonic", lambda: self.now_s)

    def selector(self, wake: Callable[[], None] = lambda: None) -> selectors.BaseSelector:
        clock = self

        class Waits(selectors.SelectSelector):
            def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
                clock.now_s += timeout or 0
                wake()
                return []

        return Waits()


def run(
    clock: Clock, step: Callable[[StepLoop], None], busy: Callable[[], bool], **kwargs: object
) -> StepLoop:
    made = StepLoop(
        step_s=0.01,
        idle_s=0.1,
        step=lambda: step(made),
        busy=busy,
        pump=lambda _: False,
        selector=kwargs.get("selector") or clock.selector(),  # type: ignore[arg-type]
    )
    made.run()
    return made


def test_steps_keep_to_absolute_deadlines(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    times: list[float] = []

    def step(loop: StepLoop) -> None:
        times.append(clock.now_s)
        clock.now_s += 0.004
        if len(times) == 5:
            loop.stop()

    made = run(clock, step, lambda: True)
    assert times == pytest.approx([100.01, 100.02, 100.03, 100.04, 100.05])
    assert made.missed == 0


def test_steps_that_were_due_meanwhile_are_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    times: list[float] = []

    def step(loop: StepLoop) -> None:
        times.append(clock.now_s)
        if len(times) == 1:
            clock.now_s += 0.035
        if len(times) == 3:
            loop.stop()

    made = run(clock, step, lambda: True)
    assert times == pytest.approx([100.01, 100.05, 100.06])
    assert made.missed == 3


def test_an_idle_loop_is_slow_and_wakes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    times: list[float] = []
    state = {"busy": False}

    def wake() -> None:
        if len(times) == 2:
            clock.now_s -= 0.06
            state["busy"] = True

    def step(loop: StepLoop) -> None:
        times.append(clock.now_s)
        if len(times) == 4:
            loop.stop()

    run(clock, step, lambda: state["busy"], selector=clock.selector(wake))
    assert times[:3] == pytest.approx([100.1, 100.2, 100.24])


def test_signals_become_calls_between_steps() -> None:
    selector = selectors.SelectSelector()
    seen: list[str] = []
    signals = Signals(
        selector, {signal.SIGUSR1: lambda: seen.append("usr1"), signal.SIGHUP: lambda: seen.append("hup")}
    )
    try:
        os.kill(os.getpid(), signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGHUP)
        for key, _ in selector.select(1):
            key.data(key.fd)
    finally:
        signals.close()
        selector.close()
    assert sorted(seen) == ["hup", "usr1"]

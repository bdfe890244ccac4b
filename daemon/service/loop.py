# SPDX-License-Identifier: Apache-2.0
"""The clock of the daemon: steps come at absolute deadlines, and other work fills the time between."""

from __future__ import annotations

import selectors
import signal
import socket
import time
from collections.abc import Callable
from typing import Final

MARGIN_S: Final = 0.001
"""Time before the next step at which other work ends, in seconds."""


class StepLoop:
    """Calls `step` every `step_s` while `busy`, and every `idle_s` otherwise, until `stop`.

    Deadlines are absolute (CLOCK_MONOTONIC), so a late step does not delay the steps after it. A step that
    falls due while another one runs is left out, and `missed` counts it. Descriptors are registered with
    `selector`, each with a callback that takes the descriptor. `pump` works until a given time, and returns
    whether work is left. An idle loop wakes as soon as a callback makes it busy.
    """

    def __init__(
        self,
        *,
        step_s: float,
        idle_s: float,
        step: Callable[[], None],
        busy: Callable[[], bool],
        pump: Callable[[float], bool],
        selector: selectors.BaseSelector,
    ) -> None:
        self.step_s = step_s
        """Length of a step in seconds. A callback may change it while the loop runs."""
        self._idle_s = max(idle_s, step_s)
        self._step = step
        self._busy = busy
        self._pump = pump
        self._selector = selector
        self._stopped = False
        self.missed = 0

    def stop(self) -> None:
        """End the loop after the step under way."""
        self._stopped = True

    def run(self) -> None:
        """Run the loop until it is stopped."""
        deadline_s = time.monotonic()
        while not self._stopped:
            idle = not self._busy()
            deadline_s += self._idle_s if idle else self.step_s
            late_s = time.monotonic() - deadline_s
            if late_s > 0:
                missed = int(late_s / self.step_s) + 1
                self.missed += missed
                deadline_s += missed * self.step_s
            if self._wait(deadline_s, idle):
                deadline_s = time.monotonic()
            if not self._stopped:
                self._step()

    def _wait(self, deadline_s: float, idle: bool) -> bool:
        """Serve descriptors until the deadline. Returns True if an idle loop woke before the deadline."""
        while not self._stopped:
            more = self._pump(deadline_s - MARGIN_S)
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return False
            for key, _ in self._selector.select(0 if more and left_s > MARGIN_S else left_s):
                key.data(key.fd)
            if idle and self._busy():
                return True
        return False


class Signals:
    """Signal handlers as callbacks of the loop. They run between steps, never inside one."""

    def __init__(
        self, selector: selectors.BaseSelector, handlers: dict[signal.Signals, Callable[[], None]]
    ) -> None:
        self._handlers = handlers
        self._selector = selector
        self._read, self._write = socket.socketpair()
        self._read.setblocking(False)
        self._write.setblocking(False)
        self._before_fd = signal.set_wakeup_fd(self._write.fileno(), warn_on_full_buffer=False)
        # The byte in the socket wakes the loop. Without a handler of its own the signal would kill the
        # process.
        self._before = {number: signal.signal(number, lambda *_: None) for number in handlers}
        selector.register(self._read, selectors.EVENT_READ, self._received)

    def close(self) -> None:
        """Restore the earlier signal handlers."""
        self._selector.unregister(self._read)
        signal.set_wakeup_fd(self._before_fd)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._read.close()
        self._write.close()

    def _received(self, _: int) -> None:
        for number in set(self._read.recv(4096)):
            handler = self._handlers.get(signal.Signals(number))
            if handler is not None:
                handler()

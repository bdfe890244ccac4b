# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gc
import logging

import pytest

from ltp_switcher.daemon.cli.main import main
from ltp_switcher.daemon.service import daemon as service


def test_no_collection_looks_at_what_was_there_before_the_first_step(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen: list[int] = []

    class Daemon:
        def __init__(self, *_: object, record: None) -> None:
            self.parts = [[]]

        def run(self) -> None:
            frozen.append(gc.get_freeze_count())
            # Nothing tracked of before is left to look at.
            assert all(known is not self.parts for known in gc.get_objects())

    monkeypatch.setattr(service, "Daemon", Daemon)
    handlers, level = logging.getLogger().handlers[:], logging.getLogger().level
    try:
        assert main(["run"]) == 0
    finally:
        gc.unfreeze()
        logging.getLogger().handlers[:] = handlers
        logging.getLogger().setLevel(level)
    assert frozen[0] > 10_000

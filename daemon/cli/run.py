# SPDX-License-Identifier: Apache-2.0
"""The commands of the systemd service: `run` and `give-back`."""

from __future__ import annotations

import argparse
import gc
from pathlib import Path

from ltp_switcher.daemon.cli.main import layers, settings


def run(options: argparse.Namespace) -> int:
    """Run the daemon until it is told to stop."""
    from ltp_switcher.daemon.service import log
    from ltp_switcher.daemon.service.daemon import Daemon

    given = layers(options)
    log.set_up(given.config().daemon.log_level)
    daemon = Daemon(given, lambda: layers(options), record=options.record)
    # The present objects stay for good. A collection that looked at all of them would delay a step by 60 ms.
    gc.collect()
    gc.freeze()
    daemon.run()
    return 0


def give_back(options: argparse.Namespace) -> int:
    """Restore the system's default congestion control, which a daemon that crashed had replaced. After a
    clean stop there is nothing to do.
    """
    from ltp_switcher.daemon.service import log
    from ltp_switcher.daemon.service.default_congestion_control import Takeover

    section = settings(options).daemon
    log.set_up(section.log_level)
    if section.state_dir:
        Takeover(Path(section.state_dir)).recover()
    return 0

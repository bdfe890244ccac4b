# SPDX-License-Identifier: Apache-2.0
"""The commands that need the settings themselves: `run` and `config`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from ltp_switcher.daemon.cli.main import settings
from ltp_switcher.daemon.settings.load import as_dict, example, to_toml


def run(options: argparse.Namespace) -> int:
    """Run the daemon until it is told to stop."""
    from ltp_switcher.daemon.service import log
    from ltp_switcher.daemon.service.daemon import Daemon

    config = settings(options)
    log.set_up(config.daemon.log_level)
    Daemon(config, lambda: settings(options), record=options.record).run()
    return 0


def give_back(options: argparse.Namespace) -> int:
    """Restore the default that a crashed daemon replaced; does nothing after a clean stop."""
    from ltp_switcher.daemon.service import log
    from ltp_switcher.daemon.service.default_congestion_control import Takeover

    section = settings(options).daemon
    log.set_up(section.log_level)
    if section.state_dir:
        Takeover(Path(section.state_dir)).recover()
    return 0


def config(options: argparse.Namespace) -> int:
    """Print the settings in force, or the example file."""
    if options.example:
        print(example(), end="")
        return 0
    values = as_dict(settings(options))
    if options.json:
        print(json.dumps(values, indent=2))
        return 0
    for section, entries in values.items():
        print(f"[{section}]")
        for name, value in entries.items():
            print(f"{name} = {to_toml(value)}")
        print()
    return 0

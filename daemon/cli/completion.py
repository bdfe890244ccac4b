# SPDX-License-Identifier: Apache-2.0
"""The command `completion`."""

from __future__ import annotations

import argparse

from ltp_switcher.daemon.cli.main import parser


def completion(options: argparse.Namespace) -> int:
    """Print the shell's completion script."""
    from ltp_switcher.completion import script

    print(script(parser(), options.shell))
    return 0

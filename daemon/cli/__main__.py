# SPDX-License-Identifier: Apache-2.0
"""Runs `ltp-switcher` as `python -m ltp_switcher.daemon.cli`."""

from ltp_switcher.daemon.cli.main import main

raise SystemExit(main())

# SPDX-License-Identifier: Apache-2.0
"""`python -m ltp_switcher.daemon.cli` is `ltp-switcher`."""

from ltp_switcher.daemon.cli.main import main

raise SystemExit(main())

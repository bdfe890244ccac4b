# SPDX-License-Identifier: Apache-2.0
"""Other chances for the lab's checks.

The lab repeats itself, so a check that fails by chance fails on every machine, or on none until a byte
changes. `LTP_TEST_CHANCE=N` moves the guest's clock and its random numbers before the checks begin.
`make test-chance` does so with several N.
"""

import os

CHANCE = int(os.environ.get("LTP_TEST_CHANCE", "0"))
SCRIPT = f"sleep 0.0{CHANCE:02}7; head -c {CHANCE * 1000} /dev/urandom >/dev/null\n" if CHANCE else ""
"""At the beginning of a guest's script. Without `LTP_TEST_CHANCE` it is empty."""

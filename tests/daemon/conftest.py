# SPDX-License-Identifier: Apache-2.0
import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

# The same examples every time, however busy the machine is.
settings.register_profile("daemon", deadline=None, derandomize=True)
settings.load_profile("daemon")

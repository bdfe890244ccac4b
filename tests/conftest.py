# SPDX-License-Identifier: Apache-2.0
"""Rules for all tests: drawn examples repeat, and no test judges how long something took."""

from importlib.util import find_spec

from hypothesis import settings

# `make test-slow` runs these with the Python that has PyTorch.
collect_ignore = [] if find_spec("torch") else ["trainers"]

settings.register_profile("project", deadline=None, derandomize=True)
settings.load_profile("project")

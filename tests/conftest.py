# SPDX-License-Identifier: Apache-2.0
"""Rules for all tests: drawn examples repeat, and no test judges how long something took."""

import os
from collections import Counter
from importlib.util import find_spec

import pytest
from hypothesis import settings

# Threads of a library spin while they wait for each other, and so take the cores of other tests. The service
# has one, too. Nothing has loaded numpy yet.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

# `make test-slow` runs these with the Python that has PyTorch.
collect_ignore = [] if find_spec("torch") else ["trainers"]

settings.register_profile("project", deadline=None, derandomize=True)
settings.load_profile("project")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with files that boot guests, then with those of many tests, so that the last ones are short."""
    tests = Counter(item.path for item in items)
    guests = {item.path for item in items if item.get_closest_marker("lab")}
    items.sort(key=lambda item: (item.path not in guests, -tests[item.path]))

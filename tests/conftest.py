# SPDX-License-Identifier: Apache-2.0
"""Rules for all tests: drawn examples repeat, and no test judges how long something took."""

from hypothesis import settings

settings.register_profile("project", deadline=None, derandomize=True)
settings.load_profile("project")

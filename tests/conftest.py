# SPDX-License-Identifier: Apache-2.0
"""What holds for all tests: drawn examples repeat, and nothing is judged by how long it took."""

from hypothesis import settings

settings.register_profile("project", deadline=None, derandomize=True)
settings.load_profile("project")

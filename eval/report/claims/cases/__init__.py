# SPDX-License-Identifier: Apache-2.0
"""One module for each claim: its paths, and how its results are judged."""

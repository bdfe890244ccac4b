# SPDX-License-Identifier: Apache-2.0
"""The suite: paths to tune on, other paths to test on, and the runs of all schemes on them."""

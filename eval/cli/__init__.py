# SPDX-License-Identifier: Apache-2.0
"""The command line of the evaluation: run scenarios, compare schemes, judge claims."""

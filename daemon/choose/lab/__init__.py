# SPDX-License-Identifier: Apache-2.0
"""Choosers for measurements: baselines to compare with, and schedules for tests and data sets."""

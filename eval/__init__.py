# SPDX-License-Identifier: Apache-2.0
"""Scenarios, the lab, comparisons and figures: every published number comes from here."""

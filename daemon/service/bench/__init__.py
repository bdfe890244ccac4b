# SPDX-License-Identifier: Apache-2.0
"""Measurements of the daemon's cost with thousands of flows, and replays of its learning with simulated
flows.
"""

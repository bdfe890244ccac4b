# SPDX-License-Identifier: Apache-2.0
"""The daemon's gain on the operator's own traffic: the log of its decisions, and estimates of the gain from
this log.
"""

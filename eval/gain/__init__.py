# SPDX-License-Identifier: Apache-2.0
"""Simulated experiments whose truth is known: whether the report's intervals hold it."""

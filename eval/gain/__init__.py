# SPDX-License-Identifier: Apache-2.0
"""Simulated experiments with a known true effect, which test the report's intervals."""

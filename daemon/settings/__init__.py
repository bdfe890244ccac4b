# SPDX-License-Identifier: Apache-2.0
"""The daemon's settings: one schema, and what reads it."""

# SPDX-License-Identifier: Apache-2.0
"""The daemon's settings: their schema and their sources."""

# SPDX-License-Identifier: Apache-2.0
"""The service: its parts put together, its life from start to stop."""

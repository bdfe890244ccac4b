# SPDX-License-Identifier: Apache-2.0
"""The service: it puts the daemon's parts together and runs them from start to stop."""

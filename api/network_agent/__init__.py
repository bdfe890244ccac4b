# SPDX-License-Identifier: Apache-2.0
"""The measurement agent of a router: it serves the state of its queues over REST."""

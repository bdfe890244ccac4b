# SPDX-License-Identifier: Apache-2.0
"""The measurement agent of a router: what its queues count, as partial network knowledge, over REST."""

# SPDX-License-Identifier: Apache-2.0
"""The measurement agent, a program on a router that serves the state of the router's queues over REST."""

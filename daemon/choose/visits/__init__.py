# SPDX-License-Identifier: Apache-2.0
"""Learning from flow to flow: on which arms the flows to a destination begin, and the cost of finding out."""

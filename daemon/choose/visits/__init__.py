# SPDX-License-Identifier: Apache-2.0
"""Learning from flow to flow. The rewards of past flows to a destination decide on which arms (congestion
controls) the next flows begin, and how often another arm is tried at a cost.
"""

# SPDX-License-Identifier: Apache-2.0
"""The choosers. Each picks an arm, one of the congestion controls that the kernel module offers, for every
flow.
"""

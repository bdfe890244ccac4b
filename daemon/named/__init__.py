# SPDX-License-Identifier: Apache-2.0
"""Flows that run `mutant` because an operator named them. Rules say which flows these are, and a BPF program
finds the rule of each new flow.
"""

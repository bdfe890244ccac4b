# SPDX-License-Identifier: Apache-2.0
"""Flows that run `mutant` because an operator named them: the rules, and the BPF program that finds a flow's
rule.
"""

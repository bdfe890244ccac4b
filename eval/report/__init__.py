# SPDX-License-Identifier: Apache-2.0
"""Comparisons, tables, pictures and claims, made from runs."""

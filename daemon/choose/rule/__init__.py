# SPDX-License-Identifier: Apache-2.0
"""The default policy, the rule, runs four arms. It chooses among them by measurements of the path, and
checks the choice by their rewards.
"""

# SPDX-License-Identifier: Apache-2.0
"""How well a flow's first seconds tell which arm suits a path."""

# SPDX-License-Identifier: Apache-2.0
"""Studies of how well a flow's first seconds predict the arm that suits a path."""

# SPDX-License-Identifier: Apache-2.0
"""What a flow's measurements say of its path."""

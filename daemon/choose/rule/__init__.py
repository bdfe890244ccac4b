# SPDX-License-Identifier: Apache-2.0
"""The default policy: three arms. Signs of the path choose among them, and their rewards check the choice."""

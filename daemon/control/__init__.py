# SPDX-License-Identifier: Apache-2.0
"""The control socket: its protocol, its methods and its answers."""

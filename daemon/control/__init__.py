# SPDX-License-Identifier: Apache-2.0
"""The control socket: the protocol, the methods that it offers, and their answers."""

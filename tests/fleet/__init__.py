# SPDX-License-Identifier: Apache-2.0
"""Measurements of hosts that share lessons, on a real store and in made worlds. They only print."""

# SPDX-License-Identifier: Apache-2.0
"""Runs inside the lab's guest: checks of `ltp-switcher use` on a real kernel, and their tools."""

# SPDX-License-Identifier: Apache-2.0
"""The command line `ltp-switcher`: it runs the daemon, shows the daemon's flows, and gives it commands."""

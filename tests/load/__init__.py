# SPDX-License-Identifier: Apache-2.0
"""Daemon and API as processes under load: `python -m load`, or `make bench-api`."""

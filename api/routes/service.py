# SPDX-License-Identifier: Apache-2.0
"""The service itself: its mode, how it stands, whether it is healthy, its metrics."""

from __future__ import annotations

# SPDX-License-Identifier: Apache-2.0
"""Shared parts of several test folders: a fake kernel, builders, guests."""

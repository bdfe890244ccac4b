# SPDX-License-Identifier: Apache-2.0
"""The endpoints, by subject."""

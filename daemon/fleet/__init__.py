# SPDX-License-Identifier: Apache-2.0
"""Hosts of a site share their knowledge of the arms on prefixes, through a store of the Redis protocol."""

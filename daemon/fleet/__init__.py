# SPDX-License-Identifier: Apache-2.0
"""The hosts of a site share their knowledge of the arms on prefixes, through a store that speaks the Redis
protocol.
"""

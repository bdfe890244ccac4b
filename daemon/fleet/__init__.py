# SPDX-License-Identifier: Apache-2.0
"""What hosts of a site tell each other about the arms on prefixes, through a store of the Redis protocol."""

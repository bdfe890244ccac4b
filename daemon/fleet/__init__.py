# SPDX-License-Identifier: Apache-2.0
"""The hosts of a site tell each other how well the arms do on destination prefixes, through a store that
speaks the Redis protocol.
"""

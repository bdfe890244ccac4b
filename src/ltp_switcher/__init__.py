# SPDX-License-Identifier: Apache-2.0
"""A meta congestion control for Linux: it runs each TCP flow under the protocol that suits the flow's path.

The sub-packages live in the repository's top-level folders; the links beside this file give each folder its
import name.
"""

__version__ = "0.1.0"

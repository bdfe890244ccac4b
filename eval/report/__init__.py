# SPDX-License-Identifier: Apache-2.0
"""What runs come to: comparisons, tables, figures, claims."""

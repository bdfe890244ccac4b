# SPDX-License-Identifier: Apache-2.0
"""What chooses an arm for each flow."""

# SPDX-License-Identifier: Apache-2.0
"""The default policy runs three arms. The measured path chooses among them, and their rewards check it."""

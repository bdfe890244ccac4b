# SPDX-License-Identifier: Apache-2.0
"""Fuzzing of the service: the real daemon and the real API as processes, whose kernel alone is a stand-in.

Inputs are drawn from a seed. Schemathesis makes some from the OpenAPI document; others are requests of both
sockets with some of their bytes changed. Each answer must be one that docs/openapi.json or docs/api.md names.
"""

# SPDX-License-Identifier: Apache-2.0
"""The matrix kernels of OpenBLAS, which numpy brings along. To be set before numpy is imported.

OpenBLAS 0.3.31 takes its AVX2 kernels on AMD's newer processors, although these have AVX-512 in full width.
With the AVX-512 kernels LTP's network takes two thirds of the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

AVX512: Final = frozenset({"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"})
FAMILY: Final = 26
"""Zen 5, the first of AMD's whose units are 512 bits wide."""
KERNELS: Final = "SKYLAKEX"
"""OpenBLAS's name of the kernels for processors that have `AVX512`."""
_VARIABLE: Final = "OPENBLAS_CORETYPE"


def fastest(environment: Mapping[str, str], cpuinfo: Path = Path("/proc/cpuinfo")) -> dict[str, str]:
    """The environment variables for OpenBLAS where it does not find the fastest kernels by itself, or none.

    A value that `environment` has already stays.
    """
    try:
        first, _, _ = cpuinfo.read_text().partition("\n\n")
    except OSError:
        return {}
    lines = (line.partition(":") for line in first.split("\n"))
    facts = {name.strip(): value.strip() for name, _, value in lines}
    family = facts.get("cpu family", "")
    if facts.get("vendor_id") != "AuthenticAMD" or not family.isdecimal() or int(family) < FAMILY:
        return {}
    if _VARIABLE in environment or not set(facts.get("flags", "").split()) >= AVX512:
        return {}
    return {_VARIABLE: KERNELS}

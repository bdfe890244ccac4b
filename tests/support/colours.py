# SPDX-License-Identifier: Apache-2.0
"""Colours as eyes tell them apart: contrast (WCAG 2.2), and distance under each kind of colour blindness."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np

SIGHTS = {
    "normal": np.eye(3),
    # Machado, Oliveira and Fernandes 2009, severity 1, on linear RGB.
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
# Ottosson 2020: linear RGB to the cones' response, and its cube root to OKLab.
_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def linear(colour: str) -> np.ndarray:
    """Linear red, green and blue, 0 to 1, of #rrggbb or #rgb."""
    digits = colour.lstrip("#")
    digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
    parts = np.array([int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)])
    made: np.ndarray = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return made


def luminance(colour: str) -> float:
    """Relative luminance."""
    return float(linear(colour) @ np.array([0.2126, 0.7152, 0.0722]))


def contrast(one: str, other: str) -> float:
    """Ratio of contrast, 1 to 21."""
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def nearest(colours: Iterable[str], sight: str) -> float:
    """The least distance between two of the colours in OKLab, times 100."""
    seen = [np.clip(SIGHTS[sight] @ linear(colour), 0.0, 1.0) for colour in colours]
    labs = [_LAB @ np.cbrt(_CONES @ colour) for colour in seen]
    return min(100.0 * float(np.linalg.norm(one - other)) for one, other in itertools.combinations(labs, 2))

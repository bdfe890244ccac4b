# SPDX-License-Identifier: Apache-2.0
"""The file of overrides: its content comes back, and damage is found."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltp_switcher.daemon.control.caller import Caller
from ltp_switcher.daemon.control.overrides import Change, Overrides, Pin, decode, encode
from ltp_switcher.errors import ArtifactError

CALLER = Caller(1000, 7, via=Caller(990, 8))
KEPT = Overrides(
    settings={"pool.k": 2, "pool.arms": ["bbr", "vegas"], "mpts.share": 0.5, "mpts.enabled": False},
    pins={18446744073709551615: Pin("bbr", lasts=True), 7: Pin("vegas", lasts=False)},
    boot="a-boot",
    changes=(Change(1_000_000_000.125, CALLER, "pool.k", 6, 2, lasts=True),),
)


def test_what_is_kept_comes_back() -> None:
    assert decode(encode(KEPT)) == KEPT
    assert decode(encode(Overrides())) == Overrides()


@pytest.mark.parametrize("bit", range(8))
def test_every_damaged_bit_is_found_or_changes_nothing(bit: int) -> None:
    text = encode(KEPT)
    for place in range(len(text)):
        damaged = bytearray(text)
        damaged[place] ^= 1 << bit
        try:
            assert decode(bytes(damaged)) == KEPT, f"byte {place}"
        except ArtifactError:
            continue


@pytest.mark.parametrize("length", [0, 1, 100, -2])
def test_a_file_cut_short_is_found(length: int) -> None:
    with pytest.raises(ArtifactError):
        decode(encode(KEPT)[:length])


@given(st.binary(max_size=100))
def test_no_content_is_fatal(text: bytes) -> None:
    with pytest.raises(ArtifactError):
        decode(text)


def test_another_version_is_named() -> None:
    newer = json.loads(encode(KEPT))
    newer["version"] = 9
    with pytest.raises(ArtifactError, match="version 9; this release reads 1"):
        decode(json.dumps(newer).encode())

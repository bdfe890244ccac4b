# SPDX-License-Identifier: Apache-2.0
"""Frames in a file that is cut, flipped, filled with garbage, or read while it grows."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from ltp_switcher.daemon.gain.frames import CONTENT_MAX, HEADER_BYTES, Scan, packed

LAYOUT = 7
contents = st.lists(st.binary(max_size=60), min_size=1, max_size=12)


def file_of(parts: list[bytes]) -> bytes:
    return b"".join(packed(LAYOUT, number, part) for number, part in enumerate(parts))


def ends(parts: list[bytes]) -> list[int]:
    """Where each frame ends."""
    found, at = [], 0
    for part in parts:
        at += HEADER_BYTES + len(part)
        found.append(at)
    return found


def in_order(some: list[bytes], of: list[bytes]) -> bool:
    """Whether these are some of the others, in their order."""
    rest = iter(of)
    return all(part in rest for part in some)


def read(scan: Scan, data: bytes, *, final: bool = True) -> list[bytes]:
    return [bytes(content) for _, content in scan.frames(data[scan.offset :], final=final)]


@given(contents)
def test_what_was_written_is_read(parts: list[bytes]) -> None:
    scan = Scan()
    assert read(scan, file_of(parts)) == parts
    assert (scan.damaged, scan.offset) == (0, len(file_of(parts)))


@given(contents, st.data())
def test_a_flipped_byte_costs_its_frame_alone(parts: list[bytes], data: st.DataObject) -> None:
    whole = bytearray(file_of(parts))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    hit = next(place for place, end in enumerate(ends(parts)) if at < end)
    scan = Scan()
    assert read(scan, bytes(whole)) == parts[:hit] + parts[hit + 1 :]
    assert scan.damaged == 1


@given(contents, st.data())
def test_a_cut_piece_costs_the_frames_that_it_touched(parts: list[bytes], data: st.DataObject) -> None:
    whole = file_of(parts)
    begin = data.draw(st.integers(0, len(whole) - 1))
    end = data.draw(st.integers(begin + 1, len(whole)))
    starts = [0, *ends(parts)[:-1]]
    left = [
        part
        for part, first, after in zip(parts, starts, ends(parts), strict=True)
        if after <= begin or first >= end
    ]
    scan = Scan()
    found = read(scan, whole[:begin] + whole[end:])
    # A cut from one header to the same place of the next one leaves a whole frame.
    assert in_order(left, found)
    assert in_order(found, parts)
    lost = len(parts) - len(found)
    if end < starts[-1]:
        assert scan.damaged == lost
    else:
        # What is missing at the end without a trace cannot be counted.
        assert int(begin not in {0, *ends(parts)}) * (lost > 0) <= scan.damaged <= lost


@given(contents, contents, st.integers(0, 12), st.binary(min_size=1, max_size=200))
def test_garbage_in_between_is_passed_over(
    before: list[bytes], after: list[bytes], missing: int, garbage: bytes
) -> None:
    parts = [*before, *[b"lost"] * missing, *after]
    frames = [packed(LAYOUT, number, part) for number, part in enumerate(parts)]
    data = b"".join(frames[: len(before)]) + garbage + b"".join(frames[len(before) + missing :])
    scan = Scan()
    assert read(scan, data) == before + after
    assert scan.damaged == max(missing, 1)


@given(contents)
def test_a_frame_that_comes_again_counts_once(parts: list[bytes]) -> None:
    scan = Scan()
    assert read(scan, file_of(parts) * 2) == parts
    assert scan.damaged == 1


@given(contents, st.lists(st.integers(0, 1500), max_size=20), st.binary(max_size=40))
def test_a_growing_file_is_read_once(parts: list[bytes], cuts: list[int], garbage: bytes) -> None:
    data = garbage + file_of(parts)
    scan, found = Scan(), []
    for cut in sorted(cuts):
        found += read(scan, data[:cut], final=False)
        assert scan.damaged <= 1, "a frame that is not there yet is not damaged"
    found += read(scan, data)
    assert found == parts
    assert scan.damaged == int(bool(garbage))


def test_marks_in_the_content_are_no_frames() -> None:
    inner = packed(LAYOUT, 5, b"inner")
    scan = Scan()
    assert read(scan, file_of([inner, b"x"])) == [inner, b"x"]
    # In a damaged frame, the intact one inside would be taken: contents are rows of numbers, not frames.
    assert read(Scan(), packed(LAYOUT, 0, bytes(100))[:-1]) == []


def test_a_length_that_no_frame_has_is_not_waited_for() -> None:
    scan = Scan()
    huge = packed(LAYOUT, 0, bytes(CONTENT_MAX + 1))[: HEADER_BYTES + 10]
    assert read(scan, huge + packed(LAYOUT, 1, b"next"), final=False) == [b"next"]
    assert scan.damaged == 1


def test_random_bytes_hold_no_frame() -> None:
    scan = Scan()
    assert read(scan, random.Random(1).randbytes(200_000)) == []
    assert scan.damaged == 1

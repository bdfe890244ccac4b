# SPDX-License-Identifier: Apache-2.0
"""Frames: pieces of a file that are checked when they are read. A reader finds the next frame after any
damage.

A frame is a header and its content. The header is little-endian. It has a mark (8 bytes), the layout of the
content (u32), and the content's length in bytes (u32). Then come the frame's number in its file from 0 on
(u64), the content's CRC-32 (u32), and the CRC-32 of the header up to here (u32). A reader that finds other
bytes goes on at the next mark.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

CONTENT_MAX: Final = 1 << 20
"""Largest number of bytes of content in a frame. A header with a larger number counts as damage."""
_MARK: Final = b"\x89LTPfrm\n"
"""Mark of a header. Its first byte is not ASCII, and a conversion of line ends changes its last byte."""
_HEADER: Final = struct.Struct("<8sIIQI")
_CRC: Final = struct.Struct("<I")
HEADER_BYTES: Final = _HEADER.size + _CRC.size


def packed(layout: int, number: int, content: bytes) -> bytes:
    """Pack at most `CONTENT_MAX` bytes of content into a frame. `layout` and `number` are written into its
    header.
    """
    header = _HEADER.pack(_MARK, layout, len(content), number, zlib.crc32(content))
    return header + _CRC.pack(zlib.crc32(header)) + content


@dataclass(slots=True)
class Scan:
    """A reader's progress in a file of frames. The frames of a file are numbered from 0 on."""

    offset: int = 0
    """Number of bytes from the beginning that need not be read again."""
    damaged: int = 0
    """Number of lost frames, counted from the gaps in the frames' numbers. An unreadable stretch counts as at
    least one frame.
    """
    lost: bool = False
    """Whether the last bytes before `offset` were unreadable. `damaged` does not include them yet."""
    _number: int = 0
    """Number that the next frame should have."""

    @property
    def nothing(self) -> bool:
        """Whether the file had bytes, but none of them were a frame."""
        return not self._number and (self.lost or self.damaged > 0)

    def frames(self, data: bytes, *, final: bool) -> Iterator[tuple[int, memoryview]]:
        """Yield the layout and content of each frame in `data`, the bytes of the file from `offset` on.

        Reading moves `offset`. If more bytes may come (`final` is false), reading stops before an unfinished
        frame.
        """
        view, at = memoryview(data), 0
        while at < len(data):
            header = self._header(data, at)
            if header is not None:
                layout, number, checksum, end = header
                if end > len(data) and not final:
                    break
                content = view[at + HEADER_BYTES : end]
                if end <= len(data) and zlib.crc32(content) == checksum:
                    self.damaged += max(number - self._number, int(self.lost))
                    self._number, self.lost = number + 1, False
                    at = end
                    yield layout, content
                    continue
            elif len(data) - at < HEADER_BYTES and not final and _MARK.startswith(data[at : at + len(_MARK)]):
                break
            self.lost = True
            found = data.find(_MARK, at + 1)
            if found < 0:
                # The last bytes may be the beginning of a mark.
                found = len(data) if final else max(len(data) - len(_MARK) + 1, at + 1)
            at = found
        if final and self.lost:
            self.damaged, self.lost = self.damaged + 1, False
        self.offset += at

    def _header(self, data: bytes, at: int) -> tuple[int, int, int, int] | None:
        """Return the layout, number, checksum and end of the frame that begins at `at`; None if no new frame
        begins there.
        """
        if len(data) - at < HEADER_BYTES:
            return None
        mark, layout, length, number, checksum = _HEADER.unpack_from(data, at)
        (own,) = _CRC.unpack_from(data, at + _HEADER.size)
        if mark != _MARK or own != zlib.crc32(data[at : at + _HEADER.size]):
            return None
        # A frame that comes again, for example from a block that was written twice, does not count.
        if length > CONTENT_MAX or number < self._number:
            return None
        return layout, number, checksum, at + HEADER_BYTES + length

# SPDX-License-Identifier: Apache-2.0
"""Changes of a request: of single bytes, of lines, and of the values in its JSON."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from random import Random
from typing import Final

CHANGES_MAX: Final = 4
_SLICE_MAX: Final = 24
_SCALAR: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?|true|false|null')
_VALUE: Final = re.compile(rb'(?:"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?|true|false|null)(?!\s*:)')
_NUMBER: Final = re.compile(rb"\d+")
_ODD_BYTES: Final = (
    b"\x00", b"\r\n", b"\n", b"\r", b"\t", b" ", b"\x7f", b"\x80", b"\xff", b"\xc3\x28", b"\xed\xa0\x80",
    b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"%", b"%00", b"%ff", b"%2f", b"%5b", b"../", b"//",
    b"?", b"#", b"&", b";", b"'", b"<b>", b"{ge}", b"%s", b"\x1b[2J",
)  # fmt: skip
_ODD_VALUES: Final = (
    b"null", b"true", b"0", b"-1", b"1", b"2", b"20", b"21", b"0.5", b"1e308", b"1e400", b"-0", b"NaN",
    b"Infinity", b"18446744073709551615", b"18446744073709551616", b"9007199254740993", b'""', b'" "',
    b'"\\u0000"', b'"\\ud800"', b'"\xff"', b'"bbr"', b'"cubic"', b'"yeah"', b'"dctcp"', b'"active"',
    b'"off"', b'"4711"', b'"1"', b'"::/0"', b'"0.0.0.0/0"', b'"198.51.100.0/24"', b'"10.0.0.1/8"',
    b'"fe80::1%eth0/64"', b'"1.1.1.1/33"', b'"{ge}"', b'"{0.__class__}"', b'"%s%n"', b'"\xe2\x98\x83"',
    b'"\xf0\x9f\x90\x8d"', b"[]", b"{}", b"[[]]", b'["bbr"]', b'["bbr","cubic","vegas"]',
    b'[{"port":22,"exclude":true}]', b'{"daemon":{"mode":"active"}}', b'{"mpts":{"budget":7}}',
    b'{"kernel":{"watchdog_ms":0}}', b'{"pool":{"k":null}}', b'[1,"x",null]',
)  # fmt: skip


def changed(data: bytes, random: Random, others: Sequence[bytes], odd: Sequence[bytes] = ()) -> bytes:
    """`data` with one to `CHANGES_MAX` changes; `odd` are more texts to put in."""
    for _ in range(random.randint(1, CHANGES_MAX)):
        data = _change(data, random, others, odd)
    return data


def with_other_value(text: bytes, random: Random) -> bytes:
    """A JSON text with one of its keys or values replaced by something odd, not always JSON."""
    places = list((_VALUE if random.random() < 0.85 else _SCALAR).finditer(text))
    if not places or random.random() < 0.05:
        return odd_value(random)
    place = random.choice(places)
    return text[: place.start()] + odd_value(random) + text[place.end() :]


def odd_value(random: Random) -> bytes:
    """A value that programs stumble over: of another type, huge, deep, or no JSON at all."""
    kind = random.random()
    if kind < 0.6:
        return random.choice(_ODD_VALUES)
    if kind < 0.75:
        return b"9" * random.choice((19, 20, 39, 309, 310, 4299, 4300, 4301))
    if kind < 0.85:
        return b'"' + b"9" * random.choice((20, 21, 400, 4301, 9000)) + b'"'
    if kind < 0.93:
        return (
            b'"' + random.choice((b"x", b"\\u0000", b"\xc3\xa9")) * random.choice((16, 41, 300, 9000)) + b'"'
        )
    return _nest(random.choice((2, 40, 200, 400, 800, 900, 940, 960, 980, 990, 3000)), random)


def _nest(depth: int, random: Random) -> bytes:
    if random.random() < 0.5:
        return b"[" * depth + b"]" * depth
    return b'{"a":' * depth + b"1" + b"}" * depth


def _change(data: bytes, random: Random, others: Sequence[bytes], odd: Sequence[bytes]) -> bytes:
    at = random.randint(0, len(data))
    end = min(len(data), at + random.randint(1, _SLICE_MAX))
    kind = random.randrange(9)
    if kind == 0 and at < len(data):
        return data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]
    if kind == 1 and at < len(data):
        return data[:at] + bytes([random.randrange(256)]) + data[at + 1 :]
    if kind == 2:
        return data[:at] + random.randbytes(random.randint(1, _SLICE_MAX)) + data[at:]
    if kind == 3:
        return data[:at] + data[end:]
    if kind == 4:
        return data[:at] + data[at:end] * random.choice((2, 2, 3, 50)) + data[end:]
    if kind == 5:
        other = random.choice(others)
        begin = random.randint(0, len(other))
        return data[:at] + other[begin : begin + random.randint(1, 8 * _SLICE_MAX)] + data[at:]
    if kind == 6 and (numbers := list(_NUMBER.finditer(data))):
        place = random.choice(numbers)
        return data[: place.start()] + odd_value(random) + data[place.end() :]
    if kind == 7 and random.random() < 0.3:
        return data[:at]
    return data[:at] + random.choice((*_ODD_BYTES, *odd)) + data[at:]


def pieces(data: bytes, random: Random) -> tuple[bytes, ...]:
    """`data` as a client may send it: mostly at once, else in two or three parts."""
    cuts = sorted(random.randint(0, len(data)) for _ in range(random.choice((0, 0, 0, 1, 2))))
    edges = [0, *cuts, len(data)]
    return tuple(data[begin:end] for begin, end in itertools.pairwise(edges) if begin < end)

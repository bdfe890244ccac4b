# SPDX-License-Identifier: Apache-2.0
"""How the processes of the load hear their orders: lines on their standard input."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator


class Orders:
    """The lines, until `end` or the end of the input."""

    async def __aiter__(self) -> AsyncIterator[str]:
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
        )
        while line := (await reader.readline()).decode().strip():
            if line == "end":
                return
            yield line

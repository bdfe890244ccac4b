# SPDX-License-Identifier: Apache-2.0
"""A running control socket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.control_server import serving


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """Of a socket whose server turns."""
    with serving(tmp_path / "control.sock") as place:
        yield place
    assert not place.exists()

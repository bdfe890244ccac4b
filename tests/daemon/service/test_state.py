# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ltp_switcher.daemon.service import state
from ltp_switcher.daemon.service.state import Saver, read_state, write_state
from ltp_switcher.daemon.step.counters import Statistics
from ltp_switcher.errors import ArtifactError

ARRAYS = {
    "policy.A": np.arange(12.0).reshape(3, 4),
    "teams.prefixes": np.array(["192.0.2.0/24", "2001:db8::/48"]),
    "k": np.array(6),
    "none": np.zeros((0, 3), np.uint8),
}


def test_state_comes_back_as_it_went(tmp_path: Path) -> None:
    write_state(tmp_path / "deep" / "state.npz", ARRAYS)
    found = read_state(tmp_path / "deep" / "state.npz")
    assert found is not None
    assert found.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
    assert [file.name for file in (tmp_path / "deep").iterdir()] == ["state.npz"]


def test_no_file_is_no_state(tmp_path: Path) -> None:
    assert read_state(tmp_path / "none.npz") is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(data=st.data())
def test_a_damaged_file_is_refused_or_harmless(tmp_path: Path, data: st.DataObject) -> None:
    """Whatever byte flips or wherever the file ends: an `ArtifactError`, or exactly what was saved."""
    path = tmp_path / "state.npz"
    write_state(path, ARRAYS)
    content = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content) - 1))]
    else:
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    try:
        found = read_state(path)
    except ArtifactError:
        return
    assert found is not None
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array)


def test_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "FORMAT_VERSION", 2)
    write_state(tmp_path / "state.npz", ARRAYS)
    monkeypatch.undo()
    with pytest.raises(ArtifactError, match="version 2; this release reads 1"):
        read_state(tmp_path / "state.npz")


def test_a_saver_saves_beside_the_loop_and_a_last_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    statistics = Statistics()
    saver = Saver(tmp_path / "state.npz", statistics)
    saver.start({"k": np.array(1)})
    saver.finish({"k": np.array(2)})
    found = read_state(tmp_path / "state.npz")
    assert found is not None
    assert found["k"] == 2
    assert (statistics.saves, statistics.save_failures) == (2, 0)
    (tmp_path / "file").write_text("")
    broken = Saver(tmp_path / "file" / "state.npz", statistics)
    broken.finish({})
    assert (statistics.saves, statistics.save_failures) == (2, 1)
    assert "was not saved" in caplog.text

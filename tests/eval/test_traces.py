# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import pytest

from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.cli.main import main
from ltp_switcher.eval.run.scenario import MODEL_TRACE
from ltp_switcher.eval.run.trace_files import locate_trace


@pytest.fixture
def traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "Some-LTE.down").write_text("0\n5\n")
    (tmp_path / "README.md").write_text("not a trace")
    monkeypatch.setenv("LTP_TRACES", str(tmp_path))
    return tmp_path


def test_a_trace_is_found_by_name_and_by_path(traces: Path) -> None:
    file = traces / "Some-LTE.down"
    assert locate_trace("Some-LTE.down") == locate_trace(str(file)) == file


def test_a_misspelt_name_is_an_error_with_a_hint(traces: Path) -> None:
    with pytest.raises(ConfigError, match=r"did you mean Some-LTE\.down"):
        locate_trace("Some-LTE.up")
    with pytest.raises(ConfigError, match="a file that exists"):
        locate_trace(str(traces / "gone"))


def test_the_model_stands_in_where_there_are_no_traces(traces: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert locate_trace(MODEL_TRACE) is None
    monkeypatch.setenv("LTP_TRACES", str(traces / "gone"))
    assert locate_trace("Some-LTE.down") is None


def test_an_odd_file_hides_no_other(
    traces: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (traces / "Odd.up").write_text("1\nx\n")
    (traces / "Other.up").write_text("1\n12\n")
    (traces / "Binary.down").write_bytes(b"\xff")
    assert main(["traces", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [trace["name"] for trace in told["traces"]] == ["Other.up", "Some-LTE.down"]
    assert sorted(told["unfit"]) == ["Binary.down", "Odd.up"]
    assert main(["traces"]) == 0
    shown = capsys.readouterr().out
    assert "Other.up" in shown
    assert "Odd.up is left out: link.trace: 'Odd.up line 2: x'" in shown

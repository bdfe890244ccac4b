# SPDX-License-Identifier: Apache-2.0
"""The comparison with the lab: reading its files, the table, the verdict."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from ltp_switcher.errors import ConfigError
from ltp_switcher.policies.simulator import validate

SCENARIO = """
name = "short"
duration_s = 2.0
[link]
rate_mbps = 12.0
rtt_ms = 40.0
[[link.step]]
at_s = 1.0
rate_mbps = 6.0
[[flow]]
scheme = "switcher"
"""


def files(folder: Path, *, scheme: str, utilisation: float, rtt_mean_ms: float) -> tuple[Path, Path]:
    scenario, result = folder / "short.toml", folder / "short" / "summary.json"
    scenario.write_text(SCENARIO)
    result.parent.mkdir()
    flow = {"scheme": scheme, "rtt_mean_ms": rtt_mean_ms}
    result.write_text(json.dumps({"utilisation": utilisation, "flows": [flow]}))
    return scenario, result


def test_a_constant_rate_is_compared_in_payload(tmp_path: Path) -> None:
    # 3 Mbit/s of packets over 12, then 6 Mbit/s: a third, less headers, at the base RTT.
    scenario, result = files(tmp_path, scheme="fixed:3", utilisation=0.32, rtt_mean_ms=41.5)
    row = validate.compare("short", scenario, result, tmp_path)
    assert row.utilisation == pytest.approx(1 / 3 * 1448 / 1500, abs=0.01)
    assert row.rtt_ms == pytest.approx(41.5, abs=1.0)
    assert row.agrees


@pytest.mark.parametrize(
    ("utilisation", "rtt_ms", "code"), [(0.32, 41.5, 0), (0.38, 41.5, 1), (0.32, 47.0, 1)]
)
def test_the_verdict_is_the_exit_code(
    utilisation: float,
    rtt_ms: float,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    files(tmp_path, scheme="fixed:3", utilisation=utilisation, rtt_mean_ms=rtt_ms)
    arguments = ["validate", "short", "--scenarios", str(tmp_path), "--results", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", arguments)
    assert validate.main() == code
    assert ("disagrees" in capsys.readouterr().out) == bool(code)


def test_a_scheme_that_is_not_modelled_is_named(tmp_path: Path) -> None:
    scenario, result = files(tmp_path, scheme="bbr", utilisation=0.9, rtt_mean_ms=50.0)
    with pytest.raises(ConfigError, match="bbr"):
        validate.compare("short", scenario, result, tmp_path)


def test_missing_results_are_an_error_not_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["validate", "none", "--scenarios", str(tmp_path)])
    assert validate.main() == 1
    assert capsys.readouterr().err.startswith("validate: results")


def test_the_commands_make_what_is_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["validate", "fixed", "step@2.5", "--commands"])
    assert validate.main() == 0
    assert capsys.readouterr().out.splitlines() == [
        "ltp-eval run eval/scenarios/fixed.toml --scheme cubic --every-flow --out out/validate/fixed",
        "ltp-eval run eval/scenarios/step.toml --scheme fixed:2.5 --every-flow --out out/validate/step@2.5",
    ]

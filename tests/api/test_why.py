# SPDX-License-Identifier: Apache-2.0
"""Why a flow runs its arm, over HTTP and on the command line, from the real daemon."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from support.api_client import Ask, asker
from support.fake_kernel import Kernel
from support.running_daemon import make_daemon, running

from ltp_switcher.arrays import Slots
from ltp_switcher.daemon.choose.chooser import Number, Told
from ltp_switcher.daemon.choose.rule.rule import RuleChooser
from ltp_switcher.daemon.cli.main import main
from ltp_switcher.daemon.settings.schema import Config, DaemonSection

PATIENCE_S = 30


def until(true: Callable[[], bool]) -> None:
    """Wait for a fact that the daemon is about to make."""
    end_s = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end_s
        time.sleep(0.02)


def test_advice_is_told_with_its_reason(ask: Ask) -> None:
    until(lambda: ask("GET", "/v1/flows/4711").json()["why"]["switches"] != [])
    why = ask("GET", "/v1/flows/4711").json()["why"]
    assert 1 <= len(why["switches"]) <= 5
    latest = why["switches"][0]
    assert (latest["before"], latest["carried_out"], latest["cause"]) == ("cubic", False, "policy")
    assert latest["after"] in ("bbr", "vegas")
    assert latest["sentence"] == f"Advised {latest['after']} instead of cubic: the lot fell on it."
    assert why["estimates"] == []
    assert why["path"] == []


@pytest.fixture
def ruled(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The control socket of a daemon with the policy rule."""
    path = tmp_path / "ruled.sock"
    section = DaemonSection(policy="rule", control_socket=str(path), state_dir="", mode="advise")
    with running(make_daemon(kernel, Config(daemon=section), monkeypatch)):
        yield path


def test_the_numbers_of_the_path_are_told_and_what_was_not_observed(
    ruled: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def path(self: RuleChooser, slots: Slots) -> Told:
        value = np.array([[1.5e6, 0.25, 40_100.0, 2000.0, np.nan, 0.001, 0.0, np.nan]])
        error = np.where(np.arange(8) == Number.PROPAGATION, 200.0, np.nan)[np.newaxis]
        return Told(value, error, np.where(np.isnan(value), np.nan, 3.0))

    monkeypatch.setattr(RuleChooser, "path", path)
    why = asker(ruled)("GET", "/v1/flows/4711").json()["why"]
    told = {one.pop("name"): one for one in why["path"]}
    assert told["rate"] == {"unit": "Mbit/s", "value": 12.0, "error": None, "age_s": 3.0}
    assert told["propagation_rtt"] == {"unit": "ms", "value": 40.1, "error": 0.2, "age_s": 3.0}
    nothing = {"value": None, "error": None, "age_s": None}
    assert told["buffer"] == {"unit": "packets", **nothing}
    assert told["application_limited"] == {"unit": "share", **nothing}
    assert len(told) == 8
    capsys.readouterr()
    assert main(["why", "4711", "--socket", str(ruled)]) == 0
    text = capsys.readouterr().out
    assert "\n  propagation rtt      40.1 ± 0.2 ms, 3 s ago\n" in text
    assert "\n  buffer               not observed\n" in text


@pytest.mark.parametrize(
    ("mode", "said"), [("off", "in mode off the daemon decides nothing"), ("active", "the lot fell on it")]
)
def test_the_sentence_depends_on_the_mode(ask: Ask, mode: str, said: str) -> None:
    ask("PUT", "/v1/mode", json={"mode": mode})
    until(lambda: said in ask("GET", "/v1/flows/815").json()["why"]["sentence"])


def test_a_pin_is_its_own_reason(ask: Ask) -> None:
    ask("PUT", "/v1/flows/4711/pin", json={"arm": "bbr"})
    why = ask("GET", "/v1/flows/4711").json()["why"]
    assert why["sentence"] == "Somebody pinned the flow to bbr; it stays there until it is unpinned."
    assert why["switches"][0]["cause"] == "operator"
    assert why["switches"][0]["sentence"] == "Switched from cubic to bbr: an operator pinned the flow."


def test_the_last_minutes_of_a_flow_and_of_all(ask: Ask) -> None:
    until(lambda: len(ask("GET", "/v1/flows/4711/history").json()["time"]) >= 2)
    past = ask("GET", "/v1/flows/4711/history").json()
    assert past["kept"] is True
    assert {len(past[name]) for name in ("goodput_mbps", "srtt_ms", "loss", "arm")} == {len(past["time"])}
    assert set(past["srtt_ms"]) == {40.5}
    assert set(past["arm"]) == {"cubic"}
    assert abs(past["time"][-1] - time.time()) < PATIENCE_S
    totals = ask("GET", "/v1/history").json()
    assert set(totals["flows"]) == {"cubic"}
    assert set(totals["flows"]["cubic"]) == {3}
    rows = ask("GET", "/v1/flows?history=1&order=goodput").json()["flows"]
    assert {len(row["history"]["time"]) for row in rows} == {1}


def test_without_being_asked_a_page_has_no_history(ask: Ask) -> None:
    assert {row["history"] for row in ask("GET", "/v1/flows").json()["flows"]} == {None}


def test_a_flow_that_is_not_there_has_no_reason(ask: Ask) -> None:
    assert ask("GET", "/v1/flows/1").status_code == 404
    assert ask("GET", "/v1/flows/1/history").status_code == 404
    refused = ask("GET", "/v1/flows?history=301")
    assert (refused.status_code, refused.json()["field"]) == (422, "history")


def test_the_command_line_says_why(
    ask: Ask, control_socket: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ask("PUT", "/v1/flows/4711/pin", json={"arm": "bbr"})
    capsys.readouterr()
    assert main(["why", "4711", "--socket", str(control_socket)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("Flow 4711 to 198.51.100.7:443. Somebody pinned the flow to bbr;")
    assert "s ago: Switched from cubic to bbr: an operator pinned the flow." in text
    assert main(["why", "4711", "--json", "--socket", str(control_socket)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["cookie"], found["arm"], found["switches"][0]["after"]) == ("4711", "bbr", "bbr")
    assert main(["why", "1", "--socket", str(control_socket)]) == 1

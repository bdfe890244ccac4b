# SPDX-License-Identifier: Apache-2.0
"""The report about the daemon's gain over HTTP: the same as the command line's, from the same log."""

from __future__ import annotations

import gc
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.api_client import Ask, asker, asker_of
from support.fake_kernel import Kernel
from support.records import flow
from support.running_daemon import make_daemon, running

from ltp_switcher.api import gain
from ltp_switcher.api.app import create_app
from ltp_switcher.api.backend import DaemonClient
from ltp_switcher.daemon.cli.main import main
from ltp_switcher.daemon.gain import outcomes
from ltp_switcher.daemon.gain.log import FOLDER, DecisionWriter, LogWriter
from ltp_switcher.daemon.gain.rows import ROW_DTYPE, Group
from ltp_switcher.daemon.settings.gain import GainSection
from ltp_switcher.daemon.settings.schema import Config, DaemonSection

NAMES = {1: "cubic", 2: "bbr"}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def ask(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ask]:
    state.mkdir()
    path = tmp_path / "control.sock"
    section = DaemonSection(policy="keep", control_socket=str(path), state_dir=str(state), mode="advise")
    with running(make_daemon(Kernel(flow(1)), Config(daemon=section), monkeypatch)):
        yield asker(path)


def born_flows(folder: Path, begin_s: float = 1e9) -> None:
    """Outcomes of five flows to each prefix of `experiment`. The treated ones have twice the reward."""
    rows = np.zeros(200, outcomes.ROW_DTYPE)
    prefix = np.repeat(np.arange(40), 5)
    control = prefix % 4 == 0
    rows["time_s"], rows["block"] = begin_s, -1
    rows["group"] = np.where(control, Group.CONTROL, Group.TREATED)
    told = rows["outcome"]
    told["cookie"], told["family"] = np.arange(200), socket.AF_INET
    told["daddr"][:, :3] = np.stack([np.full(200, 10), np.zeros(200), prefix], axis=1)
    told["acked_bytes"], told["busy_us"], told["delivered"] = 1_000_000, 2_000_000, 700
    told["rtt_us_sum"], told["rtt_samples"] = np.where(control, 500_000, 250_000) + prefix * 10, 10
    writer = LogWriter(outcomes.OUTCOMES, folder, 10**7, NAMES)
    writer.append(rows)
    writer.close()


def experiment(folder: Path, begin_s: float = 1e9) -> None:
    """A holdback of 40 prefixes. The treated ones have a quarter more goodput."""
    rows = np.zeros(200, ROW_DTYPE)
    control = np.repeat(np.arange(40) % 4 == 0, 5)
    rows["prefix"] = [f"10.0.{i}.0/24".encode() for i in np.repeat(np.arange(40), 5)]
    rows["cookie"], rows["time_s"] = np.arange(200), begin_s
    rows["duration_s"] = rows["busy_s"] = 10
    rows["acked_bytes"] = np.where(control, 1e6, 1.25e6)
    rows["delivered"], rows["retrans"], rows["rtt_us"] = 1000, 10, 40_000
    rows["arm"] = rows["ran"] = np.where(control, 1, 2)
    rows["block"], rows["reward"], rows["active"] = -1, 0.5, True
    rows["group"] = np.where(control, Group.CONTROL, Group.TREATED)
    writer = DecisionWriter(folder, 10**7, NAMES)
    writer.append(rows)
    writer.close()


def test_it_says_as_much_as_the_command_line(
    ask: Ask, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment(state / FOLDER)
    born_flows(state / outcomes.FOLDER)
    found = ask("GET", "/v1/report").json()
    assert (found["design"], found["decisions"]) == ("holdback", 200)
    assert found["flow_reward"]["all"]["value"] == pytest.approx(1.0, abs=0.01)
    assert found["flow_reward"]["< 3 MB"]["treated"] == 30
    assert found["flow_reward"]["< 30 KB"] is None
    assert found["overall"]["goodput"]["value"] == pytest.approx(0.25)
    assert (found["overall"]["goodput"]["treated"], found["overall"]["goodput"]["control"]) == (30, 10)
    assert main(["report", str(state / FOLDER), "--json"]) == 0
    assert found == json.loads(capsys.readouterr().out)


def test_an_age_leaves_older_decisions_out(ask: Ask, state: Path) -> None:
    experiment(state / FOLDER)
    found = ask("GET", "/v1/report", params={"since_s": 3600}).json()
    assert (found["design"], found["decisions"], found["arms"]) == ("none", 0, {})
    assert ask("GET", "/v1/report", params={"since_s": 0}).status_code == 422


def test_without_a_log_it_says_so(ask: Ask) -> None:
    answer = ask("GET", "/v1/report")
    assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (404, "no-decisions")
    assert "gain.log_mb" in answer.json()["detail"]


def test_the_metrics_have_the_gain_of_an_experiment_under_way(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state.mkdir()
    monkeypatch.setattr("ltp_switcher.api.metrics.FRESH_S", 0.0)
    experiment(state / FOLDER, begin_s=time.time() - 3600)
    born_flows(state / outcomes.FOLDER, begin_s=time.time() - 3600)
    path = tmp_path / "c.sock"
    section = DaemonSection(policy="keep", control_socket=str(path), state_dir=str(state), mode="active")
    config = Config(daemon=section, gain=GainSection(design="holdback", log_mb=0))
    with running(make_daemon(Kernel(flow(1)), config, monkeypatch)):
        app = create_app(DaemonClient(path, timeout_s=5))
        ask = asker_of(app)
        assert 'ltp_switcher_gain{measure="goodput"}' not in ask("GET", "/metrics").text
        app.state.gain.refresh()
        text = ask("GET", "/metrics").text
        found = re.search(r'^ltp_switcher_gain\{measure="goodput"\} (\S+)$', text, re.MULTILINE)
        assert found is not None
        assert float(found[1]) == pytest.approx(0.25)
        assert 'ltp_switcher_gain_upper{measure="rtt_p95"}' in text
        assert 'ltp_switcher_gain{measure="flow_reward"} 0.99' in text


def test_callers_at_once_wait_for_one_computation(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state.mkdir()
    experiment(state / FOLDER)
    begun, together, computed = threading.Barrier(9), threading.Event(), []
    report = gain.reports.report

    def slow(*arguments: object) -> object:
        computed.append(threading.get_ident())
        together.wait(30)
        time.sleep(0.1)
        return report(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(gain.reports, "report", slow)
    path = tmp_path / "c.sock"
    section = DaemonSection(policy="keep", control_socket=str(path), state_dir=str(state))
    with running(make_daemon(Kernel(flow(1)), Config(daemon=section), monkeypatch)):
        reports = gain.Gain(DaemonClient(path, timeout_s=30))
        found: list[object] = []

        def ask() -> None:
            begun.wait(30)
            found.append(reports.report())

        askers = [threading.Thread(target=ask) for _ in range(8)]
        for asker_ in askers:
            asker_.start()
        begun.wait(30)
        together.set()
        for asker_ in askers:
            asker_.join()
    assert len(computed) == 1
    assert len(found) == 8
    assert all(one is found[0] for one in found)


def test_a_report_that_is_old_takes_in_what_was_added(
    ask: Ask, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gain, "AGAIN", 0)
    experiment(state / FOLDER)
    assert ask("GET", "/v1/report").json()["decisions"] == 200
    experiment(state / FOLDER)
    assert ask("GET", "/v1/report").json()["decisions"] == 400
    assert ask("GET", "/v1/report", params={"since_s": 10**8}).json()["decisions"] == 0
    assert ask("GET", "/v1/report").json()["decisions"] == 400


def test_outcomes_of_flows_without_a_decision_are_taken_in(
    ask: Ask, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gain, "AGAIN", 0)
    experiment(state / FOLDER)
    assert ask("GET", "/v1/report").json()["flow_reward"] == {}
    born_flows(state / outcomes.FOLDER)
    assert ask("GET", "/v1/report").json()["flow_reward"]["all"]["value"] == pytest.approx(1.0, abs=0.01)


def test_a_report_that_took_long_is_given_again(
    ask: Ask, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gain, "AGAIN", 1e9)
    experiment(state / FOLDER)
    assert ask("GET", "/v1/report").json()["decisions"] == 200
    experiment(state / FOLDER)
    assert ask("GET", "/v1/report").json()["decisions"] == 200


def test_reports_on_many_ages_do_not_pile_up(ask: Ask, state: Path) -> None:
    experiment(state / FOLDER)
    for age_s in range(1, 40):
        assert ask("GET", "/v1/report", params={"since_s": age_s}).status_code == 200
    held = [one for one in gc.get_objects() if isinstance(one, gain.reports.Report)]
    assert len(held) < 30

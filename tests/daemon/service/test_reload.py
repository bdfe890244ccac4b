# SPDX-License-Identifier: Apache-2.0
"""Settings that change while the daemon runs: by a reload, or over the control socket; failed saves."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from support.api_client import asker
from support.fake_kernel import BBR, CUBIC, VEGAS, Kernel
from support.records import flow
from support.running_daemon import close, layers_of, make_daemon, running
from support.told import outcome

from ltp_switcher.daemon.choose.teams.terms import Outcome
from ltp_switcher.daemon.cli.main import main
from ltp_switcher.daemon.control.caller import Caller
from ltp_switcher.daemon.control.client import ControlClient
from ltp_switcher.daemon.datapath.protocol import OUTCOME_DTYPE, StartCause
from ltp_switcher.daemon.gain.outcomes import read
from ltp_switcher.daemon.gain.rows import Group
from ltp_switcher.daemon.gain.trial import Trial
from ltp_switcher.daemon.service.daemon import Daemon
from ltp_switcher.daemon.settings.load import load
from ltp_switcher.daemon.settings.policies import parse
from ltp_switcher.daemon.settings.schema import Config
from ltp_switcher.errors import DatapathError

Make = Callable[..., Daemon]


@pytest.fixture
def kernel() -> Kernel:
    return Kernel(flow(7, "198.51.100.7"))


@pytest.fixture
def make(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Makes a daemon with these settings and lets it look at the flows once."""
    made: list[Daemon] = []

    def start(**values: object) -> Daemon:
        place = {
            "daemon.control_socket": str(tmp_path / "control.sock"),
            "daemon.state_dir": "",
            "daemon.policy": "mutant",
            "learning.baseline": "none",
        }
        config = load(None, {}, {**place, **{key.replace("__", "."): v for key, v in values.items()}})
        made.append(make_daemon(kernel, config, monkeypatch))
        made[0].engine.step()
        return made[0]

    yield start
    for daemon in made:
        close(daemon)


def reload(daemon: Daemon, new: Config) -> None:
    daemon._reload = lambda: layers_of(new)
    daemon._hang_up()


def prefix_of(daemon: Daemon, cookie: int) -> str:
    return daemon.engine.table.prefix[daemon.engine.table.slot(cookie)]


def changed(config: Config, **values: object) -> Config:
    """`pool__k=2` is pool.k = 2."""
    for key, value in values.items():
        section, _, name = key.partition("__")
        config = dataclasses.replace(
            config, **{section: dataclasses.replace(getattr(config, section), **{name: value})}
        )
    return config


def test_reports_as_rare_as_round_trips_allow(make: Make, kernel: Kernel) -> None:
    daemon = make(daemon__mode="active", daemon__rtt_quarters=2)
    assert (kernel.rtt_quarters, daemon.engine.learned.rtt_quarters) == (2, 2)
    daemon.set_mode("advise")
    assert kernel.rtt_quarters == 2
    reload(daemon, changed(daemon.config, daemon__rtt_quarters=1))
    assert (kernel.rtt_quarters, daemon.engine.learned.rtt_quarters) == (1, 1)
    reload(daemon, changed(daemon.config, daemon__rtt_quarters=0))
    assert (kernel.rtt_quarters, daemon.engine.learned.rtt_quarters) == (0, 0)


def test_an_older_module_reports_at_every_step(
    make: Make, kernel: Kernel, caplog: pytest.LogCaptureFixture
) -> None:
    kernel.is_old = True
    daemon = make(daemon__rtt_quarters=1)
    assert (kernel.session, kernel.rtt_quarters) == (["open"], 0)
    assert "daemon.rtt_quarters does not count" in caplog.text
    assert daemon.engine.learned.rtt_quarters == 0


def test_an_older_module_tells_no_outcomes(
    make: Make, kernel: Kernel, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kernel.is_old = True
    daemon = make(daemon__state_dir=str(tmp_path))
    assert (kernel.session, kernel.outcomes_max) == (["open"], 0)
    assert daemon.engine.outcomes is None
    assert "gain.outcomes_mb does not count" in caplog.text
    assert "rtt_quarters" not in caplog.text


def test_outcomes_are_logged_and_counted(make: Make, kernel: Kernel, tmp_path: Path) -> None:
    daemon = make(daemon__state_dir=str(tmp_path))
    assert kernel.outcomes_max >= 1000
    kernel.told = np.zeros(3, OUTCOME_DTYPE)
    kernel.told["cookie"] = (4, 5, 6)
    kernel.dropped = 2
    found = daemon.engine.outcomes
    assert found is not None
    found.take()
    kernel.told = np.zeros(1, OUTCOME_DTYPE)
    daemon.engine.close()
    rows = np.concatenate(list(read(tmp_path / "outcomes")))
    assert rows["outcome"]["cookie"].tolist() == [4, 5, 6, 0]
    assert (found.told, found.dropped, found.unlogged) == (4, 2, 0)


def test_outcomes_tell_the_groups_of_a_running_experiment(make: Make, kernel: Kernel, tmp_path: Path) -> None:
    """Half of 20 prefixes is held back. Only flows that the experiment may rule from their births count."""
    daemon = make(
        daemon__state_dir=str(tmp_path), daemon__mode="active", gain__design="holdback", gain__share=0.5,
        gain__baseline_arm="cubic",
    )  # fmt: skip
    policies = parse([{"prefix": "192.0.2.0/24", "exclude": True}])
    daemon.engine.govern(policies, {"cubic": 1}, 1)

    def told(*addresses: str, **fields: int) -> None:
        kernel.told = np.concatenate(
            [outcome(address, age_ns=0, time_ns=time.monotonic_ns(), **fields) for address in addresses]
        )
        daemon.engine._look_at_ns = 0
        daemon.engine.step()

    others = [f"203.0.{number}.1" for number in range(20)]
    daemon.engine.step()
    told(*others, "192.0.2.9")
    told(*others, cause=StartCause.NAMED)
    told(*others[:1], netns=5)
    born_before = outcome(others[0], age_ns=3600 * 10**9, time_ns=time.monotonic_ns())
    kernel.told = born_before
    daemon.engine.close()
    rows = np.concatenate(list(read(tmp_path / "outcomes")))
    trial = Trial("holdback", share=0.5, seed=daemon.config.daemon.seed)
    expected = [
        Group.CONTROL if trial.holds_back(f"203.0.{number}.0/24") else Group.TREATED for number in range(20)
    ]
    assert 4 < expected.count(Group.CONTROL) < 16
    elsewhere = Group.CONTROL if trial.holds_back("203.0.0.0/24@5") else Group.TREATED
    assert rows["group"].tolist() == [*expected, *[Group.NONE] * 21, elsewhere, Group.WASHOUT]
    assert (rows["block"] == -1).all()


def test_outcomes_of_mode_advise_are_of_no_group(make: Make, kernel: Kernel, tmp_path: Path) -> None:
    daemon = make(daemon__state_dir=str(tmp_path), gain__design="switchback", gain__baseline_arm="cubic")
    daemon.set_mode("advise")
    kernel.told = outcome(age_ns=0, time_ns=time.monotonic_ns())
    daemon.engine.close()
    (rows,) = read(tmp_path / "outcomes")
    assert (rows["group"].tolist(), rows["block"].tolist()) == ([Group.NONE], [-1])


def test_without_room_for_them_the_module_tells_no_outcomes(
    make: Make, kernel: Kernel, tmp_path: Path
) -> None:
    daemon = make(daemon__state_dir=str(tmp_path), gain__outcomes_mb=0)
    assert kernel.outcomes_max == 0
    assert daemon.engine.outcomes is None


def test_a_reload_leaves_what_the_operator_set_by_hand(make: Make) -> None:
    daemon = make(pool__k=2)
    teams = daemon.engine.teams
    daemon.change({"pool.k": 1, "pool.arms": ["bbr", "vegas"]}, Caller(0, 1), runtime=False)
    reload(daemon, changed(daemon.config, mpts__share=0.5))
    assert (teams.k, teams.candidates, teams.settings.share) == (1, (BBR, VEGAS), 0.5)


def test_a_reload_with_another_pool_keeps_team_selection_on(make: Make) -> None:
    daemon = make(pool__k=1)
    teams = daemon.engine.teams
    assert teams.searches[prefix_of(daemon, 7)].terms.candidates == (CUBIC, BBR, VEGAS)
    reload(daemon, changed(daemon.config, pool__arms=("bbr", "vegas")))
    assert teams.searches[prefix_of(daemon, 7)].terms.candidates == (BBR, VEGAS)


def test_a_reload_turns_team_selection_off_and_on(make: Make, kernel: Kernel) -> None:
    daemon = make(pool__k=1)
    teams = daemon.engine.teams
    for enabled, searched in ((False, False), (True, True)):
        reload(daemon, changed(daemon.config, mpts__enabled=enabled))
        cookie = 100 + enabled
        kernel.table[cookie] = flow(cookie, f"203.0.{cookie}.1")
        daemon.engine.step()
        assert (prefix_of(daemon, cookie) in teams.searches) is searched


@pytest.mark.parametrize("wrong", [{"kernel__fallback_arm": "yeah"}, {"mpts__budget": 2}])
def test_a_refused_reload_changes_nothing(
    make: Make, kernel: Kernel, caplog: pytest.LogCaptureFixture, wrong: dict[str, object]
) -> None:
    daemon = make(pool__k=2)
    before, kernel_before = daemon.config, list(kernel.settings)
    new = changed(daemon.config, kernel__default_arm="bbr", pool__k=1, daemon__mode="active", **wrong)
    reload(daemon, new)
    assert daemon.config == before
    assert kernel.settings == kernel_before
    assert (daemon.engine.teams.k, daemon.mode) == (2, "advise")
    assert "the new settings are refused" in caplog.text


def test_a_save_that_fails_shows_in_metrics_and_log(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / "state"
    control = tmp_path / "control.sock"
    values = {"daemon.control_socket": str(control), "daemon.state_dir": str(place),
              "daemon.save_interval_s": 1}  # fmt: skip
    ask = asker(control)

    def count(result: str) -> int:
        lines = ask("GET", "/metrics").text.splitlines()
        name = f'ltp_switcher_state_saves_total{{result="{result}"}} '
        (value,) = [line.removeprefix(name) for line in lines if line.startswith(name)]
        return int(float(value))

    def wait_for(result: str) -> None:
        deadline_s = time.monotonic() + 60
        while not count(result) and time.monotonic() < deadline_s:
            time.sleep(0.05)

    with running(make_daemon(kernel, load(None, {}, values), monkeypatch)):
        wait_for("saved")
        assert (count("saved") > 0, count("failed")) == (True, 0)
        (place / "state.npz").unlink()
        (place / "state.npz").mkdir()
        wait_for("failed")
        assert count("failed") > 0
    assert f"{place}/state.npz cannot be written" in caplog.text


def test_pool_and_k_set_by_hand_pick_teams_anew(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {
        "daemon.control_socket": str(tmp_path / "c.sock"),
        "daemon.state_dir": "",
        "daemon.policy": "mutant",
        "learning.baseline": "none",
        "pool.k": 1,
    }
    daemon = make_daemon(kernel, load(None, {}, values), monkeypatch)
    with running(daemon), ControlClient(tmp_path / "c.sock") as client:
        daemon.engine.teams.found["192.0.2.0/24"] = Outcome((BBR,))
        client.call("k.set", k=1)
        assert client.call("pool.get")["teams"] == {"192.0.2.0/24": ["bbr"]}, "the size is the same"
        client.call("k.set", k=2)
        assert client.call("pool.get")["teams"] == {}
        (search,) = client.call("mpts.status")["searches"]
        assert (search["prefix"], search["k"]) == (prefix_of(daemon, 7), 2)
        assert client.call("pool.set", arms=["bbr", "vegas"])["arms"] == ["bbr", "vegas"]
        assert client.call("mpts.status")["searches"] == [], "2 of 2 is no choice"
        client.call("k.set", k=1)
        (search,) = client.call("mpts.status")["searches"]
        assert search["log_ratio"].keys() == {"bbr", "vegas"}


def test_another_k_says_that_it_forgets_teams_which_nobody_picks_anew(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {"daemon.control_socket": str(tmp_path / "c.sock"), "daemon.state_dir": "", "pool.k": 1}
    daemon = make_daemon(kernel, load(None, {}, values), monkeypatch)
    with running(daemon), ControlClient(tmp_path / "c.sock") as client:
        daemon.engine.teams.found["192.0.2.0/24"] = Outcome((BBR,))
        assert client.call("k.set", k=1)["note"].startswith("no flow's arms change yet"), (
            "the size is the same"
        )
        assert client.call("k.set", k=2)["note"].startswith("earlier teams are forgotten")
        assert client.call("k.set", k=1)["note"].startswith("no flow's arms change yet"), "no team is left"


def test_a_reload_over_the_socket_fails_when_the_settings_are_refused(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    values = {"daemon.control_socket": str(tmp_path / "c.sock"), "daemon.state_dir": ""}
    daemon = make_daemon(kernel, load(None, {}, values), monkeypatch)
    with running(daemon):
        command = ["reload", "--socket", str(tmp_path / "c.sock")]
        daemon._reload = lambda: layers_of(changed(daemon.config, pool__k=1, kernel__fallback_arm="yeah"))
        assert main(command) == 2
        assert "kernel.fallback_arm" in capsys.readouterr().err
        assert daemon.engine.teams.k == 2
        daemon._reload = lambda: layers_of(changed(daemon.config, pool__k=2, daemon__seed=7))
        assert main([*command, "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == {"changed": ["daemon.seed", "pool.k"]}
        assert daemon.engine.teams.k == 2


def test_a_kernel_that_refuses_leaves_pool_and_k(make: Make, kernel: Kernel) -> None:
    daemon = make(pool__k=2)

    def refuse(**_: object) -> None:
        raise DatapathError("the module is gone")

    kernel.set_config = refuse  # type: ignore[method-assign]
    reload(daemon, changed(daemon.config, kernel__default_arm="bbr", pool__k=1, daemon__mode="active"))
    assert (daemon.engine.teams.k, daemon.mode) == (2, "advise")


def test_config_shows_what_is_in_force(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    values = {"daemon.control_socket": str(tmp_path / "c.sock"), "daemon.state_dir": "", "mpts.budget": 50}
    command = ["config", "--json", "--socket", str(tmp_path / "c.sock")]
    with running(make_daemon(kernel, load(None, {}, values), monkeypatch)):
        with ControlClient(tmp_path / "c.sock") as client:
            client.call("k.set", k=2)
            client.call("mode.set", mode="off")
            client.call("pool.set", arms=["bbr", "vegas"])
        assert main(command) == 0
        shown = json.loads(capsys.readouterr().out)
        values, origins = shown["values"], shown["origins"]
        assert (values["mpts"]["budget"], values["daemon"]["mode"]) == (50, "off")
        assert values["pool"] == {"arms": ["bbr", "vegas"], "k": 2, "extra": []}
        assert origins["pool"] == {"arms": "override", "k": "override", "extra": "default"}
        assert origins["mpts"]["budget"] == "file"
    assert main(command) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["values"]["mpts"]["budget"] == 100
    assert "without overrides" in told.err


def test_every_change_over_the_socket_leaves_a_line_with_its_author(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    values = {
        "daemon.control_socket": str(tmp_path / "c.sock"),
        "daemon.state_dir": "",
        "daemon.policy": "mutant",
        "learning.baseline": "none",
    }
    with (
        running(make_daemon(kernel, load(None, {}, values), monkeypatch)),
        ControlClient(tmp_path / "c.sock") as client,
    ):
        client.call("k.set", k=2)
        client.call("pool.set", arms=["bbr", "vegas"])
        client.call("pin", cookie="7", arm="bbr")
        client.call("unpin", cookie="7")
        client.call("mpts.start")
        client.call("mode.set", mode="off")
    author = f"(uid {os.getuid()}, pid {os.getpid()})"
    for line in (
        "pool.k is 2 now, was 6",
        "pool.arms is bbr, vegas now, was empty",
        "pin of flow 7 is bbr now, was none",
        "pin of flow 7 is none now, was bbr",
        "team selection for all prefixes is started now until the daemon ends, was none",
        "daemon.mode is off now, was advise",
    ):
        assert f"{line} {author}" in caplog.messages

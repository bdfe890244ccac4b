# SPDX-License-Identifier: Apache-2.0
"""The daemon that learns from flow to flow, with all its parts but the kernel."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from support.fake_kernel import ARMS, BBR, CUBIC, VEGAS, YEAH, Kernel
from support.records import NETNS, flow, record
from support.running_daemon import close, make_daemon
from support.told import outcome

from ltp_switcher.daemon.cli import show
from ltp_switcher.daemon.cli import visits as visits_command
from ltp_switcher.daemon.cli.main import main
from ltp_switcher.daemon.control.caller import Caller
from ltp_switcher.daemon.control.families import from_json
from ltp_switcher.daemon.control.methods import Methods
from ltp_switcher.daemon.datapath import ArmInfo, EventBatch, FlowEvent
from ltp_switcher.daemon.datapath.protocol import ArmId, ArmKind, ArmState, Cmd, FlowFlags, StartCause
from ltp_switcher.daemon.service.assembly import visit_arms
from ltp_switcher.daemon.service.daemon import Daemon
from ltp_switcher.daemon.settings.policies import parse
from ltp_switcher.daemon.settings.schema import Config, DaemonSection, VisitsSection
from ltp_switcher.errors import ConfigError, InvalidValueError

PREFIX = "192.0.2.0/24"
CALLER = Caller(0, 0)
LEARNED_ARMS = [
    ArmInfo(int(arm), arm.name.lower(), ArmState.AVAILABLE, ArmKind.LEARNED, "")
    for arm in (ArmId.LTP, ArmId.SPINE)
]
Make = Callable[..., Daemon]


@pytest.fixture
def kernel() -> Kernel:
    return Kernel(steps=[])


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The Unix time, which tests set."""
    told = [1_800_000_000.0]
    monkeypatch.setattr("ltp_switcher.daemon.step.engine.time.time", lambda: told[0])
    return told


@pytest.fixture
def make(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, now: list[float]) -> Iterator[Make]:
    monkeypatch.setattr("ltp_switcher.daemon.datapath.netlink.own_namespace", lambda: NETNS)

    def made(learn: str = "on", mode: str = "active", arms: tuple[str, ...] = ()) -> Daemon:
        section = DaemonSection(
            mode=mode, state_dir=str(tmp_path / "state"), control_socket=str(tmp_path / "control.sock")
        )
        (tmp_path / "state").mkdir(exist_ok=True)
        config = Config(daemon=section, visits=VisitsSection(learn, arms))
        while daemons:
            close(daemons.pop())
        daemons.append(make_daemon(kernel, config, monkeypatch))
        return daemons[-1]

    daemons: list[Daemon] = []
    yield made
    for daemon in daemons:
        close(daemon)


def look(
    daemon: Daemon, kernel: Kernel, now: list[float], seconds: int, told: np.ndarray | None = None
) -> None:
    """So many looks, a second apart; the first one finds these outcomes."""
    for _ in range(seconds):
        if told is not None:
            kernel.told, told = told, None
            kernel.told["netns"] = NETNS
        daemon.engine._look_at_ns = 0
        daemon.engine.step()
        # The step after a look plans.
        daemon.engine.step()
        now[0] += 1.0


def teach(daemon: Daemon, kernel: Kernel, now: list[float], visits: int = 20) -> np.void:
    """Short flows to the prefix, a visit each. Returns its entry, which has two lots.

    Trials have money at once, as on a prefix that had a thousand flows before.
    """
    learned = daemon.engine.visits
    assert learned is not None
    for number in range(visits):
        if number == 1:
            learned.learner.purse.earn(np.zeros(1, np.int64), np.array([1000.0]))
        entry = kernel.entries.get(PREFIX)
        lots = {} if entry is None else {
            "generation": int(entry["generation"]), "weight": int(entry["choice"]["weight"][0]),
            "weights": int(entry["choice"]["weight"].sum()),
        }  # fmt: skip
        look(daemon, kernel, now, 25, outcome(visit=number + 1, cookie=100 + number, **lots))
    found: np.void = kernel.entries[PREFIX]
    assert found["choice"]["arm"][1] != 0
    return found


def lot_of(entry: np.void, place: int) -> dict[str, int]:
    """The fields that the module tells of a flow whose visit drew the lot at this place of an entry."""
    choice = entry["choice"]
    return {
        "arm": int(choice["arm"][place]), "generation": int(entry["generation"]), "visit": 33,
        "weight": int(choice["weight"][place]), "weights": int(choice["weight"].sum()),
    }  # fmt: skip


def born(daemon: Daemon, kernel: Kernel, cookie: int, place: int) -> int:
    """A flow to the prefix whose visit drew the lot at this place of the prefix's entry. Returns its slot."""
    told = lot_of(kernel.entries[PREFIX], place)
    told |= {"want_arm": told["arm"], "flags": int(FlowFlags.STEERED), "start_cause": StartCause.TABLE}
    kernel.table[cookie] = flow(cookie, "192.0.2.77", **told)
    kernel.pending.append(EventBatch([FlowEvent(Cmd.FLOW_BIRTH, kernel.table[cookie])], lost=False))
    daemon.engine.read_events()
    return daemon.engine.table.slot(cookie)


def ask(daemon: Daemon, method: str, **params: object) -> dict[str, object]:
    found = Methods(daemon).handle(method, params, CALLER)
    assert isinstance(found, dict)
    return found


def test_off_is_the_default_and_changes_nothing(make: Make, kernel: Kernel, now: list[float]) -> None:
    assert Config().visits.learn == "off"
    daemon = make("off")
    assert daemon.engine.visits is None
    assert kernel.start_seed == 0
    look(daemon, kernel, now, 30, outcome(visit=1))
    assert kernel.entries == {}
    assert ask(daemon, "visits.get")["learn"] is False


def test_short_flows_lead_to_lots_in_the_module(make: Make, kernel: Kernel, now: list[float]) -> None:
    daemon = make()
    assert (kernel.start_arms, kernel.start_seed, kernel.outcomes_max > 0) == (True, 1, True)
    entry = teach(daemon, kernel, now)
    arms, weights = entry["choice"]["arm"].tolist(), entry["choice"]["weight"].tolist()
    # The decision's own flows begin on the default arm, even if that is the trial, too.
    assert arms[0] == CUBIC
    assert arms[1] in {CUBIC, BBR, VEGAS}
    assert arms[2:] == [0, 0]
    assert 0 < weights[1] < weights[0]
    assert sum(weights) == 65_535


def test_a_flow_that_drew_an_arm_stays_there_and_says_why(
    make: Make, kernel: Kernel, now: list[float]
) -> None:
    daemon = make()
    entry = teach(daemon, kernel, now)
    own, trial = entry["choice"]["arm"].tolist()[:2]
    held, free = born(daemon, kernel, 1, 1), born(daemon, kernel, 2, 0)
    kernel.sent.clear()
    for at_ms in range(0, 3000, 50):
        records = [
            record(cookie, arm=arm, want_arm=arm, samples=5, flags=int(FlowFlags.STEERED), srtt_us=40_000,
                   time_ns=(at_ms + 50) * 1_000_000)
            for cookie, arm in ((1, trial), (2, own))
        ]  # fmt: skip
        kernel.steps = [np.concatenate(records)]
        daemon.engine.step()
    # The rule commands the flow that is the decision's, and never the other.
    cookies = {int(cookie) for batch in kernel.sent for cookie in batch["cookie"]}
    assert cookies == ({2} if own != BBR else set())
    name = daemon.names[trial]
    told = ask(daemon, "flows.get", cookie="1")["why"]["sentence"]  # type: ignore[index]
    chance = float(entry["choice"]["weight"][1]) / 65_535
    assert told.startswith(f"It runs {name}: the flow's visit to its network drew this arm by lot")
    assert told.endswith(f"Visit 33 of {PREFIX} drew {name} (chance {chance:.2g}).")
    other = ask(daemon, "flows.get", cookie="2")["why"]["sentence"]  # type: ignore[index]
    assert f"Visit 33 of {PREFIX} drew the decision's own choice (chance {1 - chance:.2g})." in other
    # While the flow lasts, it starves.
    lasting = outcome(gain=-4.0, cookie=1, ended=0, **lot_of(entry, 1))
    assert daemon.engine.visits is not None
    paths = daemon.engine.visits.learner.paths
    assert not paths.state()["path_count"].any()
    look(daemon, kernel, now, 1, lasting)
    # While it lasts, the prefix learns its path, too.
    assert paths.state()["path_count"][0].any()
    told = ask(daemon, "flows.get", cookie="1")["why"]["sentence"]  # type: ignore[index]
    assert f"Visit 33 of {PREFIX} drew {name} (chance {chance:.2g}); the flow left it" in told
    assert daemon.engine.visits is not None
    assert daemon.engine.visits.aborted == 1
    assert (held, free) == (daemon.engine.table.slot(1), daemon.engine.table.slot(2))


def test_outside_of_mode_active_nothing_is_learned_and_no_flow_is_held(
    make: Make, kernel: Kernel, now: list[float]
) -> None:
    daemon = make(mode="advise")
    assert not kernel.start_arms
    for number in range(3):
        look(daemon, kernel, now, 20, outcome(visit=number + 1))
    assert kernel.entries == {}
    assert ask(daemon, "visits.get")["visits"] == 0


def test_a_policy_takes_its_prefix_back(make: Make, kernel: Kernel, now: list[float]) -> None:
    daemon = make()
    teach(daemon, kernel, now)
    policies = parse([{"prefix": PREFIX, "pin": "vegas"}], arms=["vegas"])
    daemon.set_policies(policies, CALLER)
    look(daemon, kernel, now, 25)
    entry = kernel.entries[PREFIX]
    assert (int(entry["generation"]), entry["choice"]["arm"].tolist()) == (0, [VEGAS, 0, 0, 0])
    (state,) = ask(daemon, "visits.get")["prefixes"]  # type: ignore[misc]
    assert state["ruled"]
    before = ask(daemon, "visits.get")["visits"]
    look(daemon, kernel, now, 25, outcome(visit=99, cookie=9999))
    assert ask(daemon, "visits.get")["visits"] == before


def test_a_restart_keeps_the_posteriors_and_damage_is_told(
    make: Make, kernel: Kernel, now: list[float], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = make()
    teach(first, kernel, now)
    known = ask(first, "visits.get")["prefixes"]
    assert first._saver is not None
    first._saver.finish(first._state())
    second = make()
    # A crashed daemon's lots are gone until there is a plan.
    assert kernel.entries == {}
    again = ask(second, "visits.get")["prefixes"]
    assert [(one["prefix"], one["visits"], one["effects"]) for one in again] == [  # type: ignore[attr-defined]
        (one["prefix"], one["visits"], one["effects"])
        for one in known  # type: ignore[attr-defined]
    ]
    look(second, kernel, now, 10)
    assert int(kernel.entries[PREFIX]["generation"]) != 0
    caplog.set_level(logging.WARNING)
    other = make(arms=("vegas",))
    assert "visits.arms has changed" in caplog.text
    assert ask(other, "visits.get")["known"] == 0
    state = tmp_path / "state" / "state.npz"
    state.write_bytes(state.read_bytes()[:-300])
    damaged = make()
    assert "starting afresh" in caplog.text
    assert ask(damaged, "visits.get")["known"] == 0


def test_an_older_module_learns_nothing_and_this_is_said(
    make: Make, kernel: Kernel, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    kernel.is_old = True
    daemon = make()
    assert daemon.engine.visits is None
    assert "visits.learn does not count: the loaded module is older than the setting" in caplog.text


@pytest.mark.parametrize(
    ("arms", "field"),
    [
        (("vegass",), "visits.arms[0]"),
        (("bbr", "bbr"), "visits.arms[1]"),
        (("ltp", "spine"), "visits.arms[1]"),
    ],
)
def test_an_arm_that_cannot_be_tried_is_refused(arms: tuple[str, ...], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        visit_arms(Config(visits=VisitsSection("on", arms)), [*ARMS, *LEARNED_ARMS])
    assert caught.value.field == field


def metrics(daemon: Daemon) -> dict[str, float]:
    """The values of the metrics about visits, by name."""
    return {
        family.name: family.samples[0].value
        for family in from_json(Methods(daemon).handle("metrics", {}, CALLER))
        if family.name.startswith("ltp_switcher_visits")
    }


def test_metrics_tell_visits_trials_and_their_price(make: Make, kernel: Kernel, now: list[float]) -> None:
    daemon = make()
    entry = teach(daemon, kernel, now)
    trial = {
        "generation": int(entry["generation"]), "weight": int(entry["choice"]["weight"][1]),
        "weights": 65_535,
    }  # fmt: skip
    look(daemon, kernel, now, 25, outcome(gain=-1.0, visit=50, cookie=777, **trial))
    found = metrics(daemon)
    assert found["ltp_switcher_visits"] == 21
    assert found["ltp_switcher_visits_trials"] == 1
    assert found["ltp_switcher_visits_prefixes"] == 1
    # A thousand flows and twenty visits paid in, and one flow has cost as much as one earns.
    assert found["ltp_switcher_visits_spent_share"] == pytest.approx(1 / 1021, rel=0.1)


def test_a_change_of_the_path_is_counted_wherever_a_person_looks(
    make: Make, kernel: Kernel, now: list[float], capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """After 40 visits the reward falls to a twentieth, whatever the arm. It does so once."""
    daemon = make()
    monkeypatch.setattr(visits_command, "ask", lambda _, method, **params: ask(daemon, method, **params))

    def counts() -> tuple[object, object, object]:
        told = ask(daemon, "visits.get")
        (prefix,) = told["prefixes"]  # type: ignore[misc]
        counted = metrics(daemon)["ltp_switcher_visits_path_changes"]
        return counted, told["path_changes"], prefix["path_changes"]

    for number in range(40):
        look(daemon, kernel, now, 15, outcome(visit=number + 1, cookie=100 + number))
    born(daemon, kernel, 1, 0)
    assert counts() == (0, 0, 0)
    assert "has changed" not in ask(daemon, "flows.get", cookie="1")["why"]["sentence"]  # type: ignore[index]
    for number in range(40, 80):
        look(daemon, kernel, now, 15, outcome(gain=-3.0, visit=number + 1, cookie=100 + number))
        if counts()[0]:
            break
    assert counts() == (1, 1, 1)
    told = ask(daemon, "flows.get", cookie="1")["why"]["sentence"]  # type: ignore[index]
    assert told.endswith(f"The path to {PREFIX} has changed once since the daemon's start.")
    assert main(["visits"]) == 0
    summary, heads, row = capsys.readouterr().out.strip().splitlines()
    assert "1 changes of paths" in summary
    at = heads.index("CHANGES")
    assert row[at:].split()[0] == "1"


def test_where_an_arm_of_the_decision_starves_the_prefix_is_explored_anew(
    make: Make, kernel: Kernel, now: list[float], capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """It is counted wherever a person looks: once in a calm time, though the arm starves in each look."""
    daemon = make()
    monkeypatch.setattr(visits_command, "ask", lambda _, method, **params: ask(daemon, method, **params))
    entry = teach(daemon, kernel, now)
    tried = next(arm.name for arm in ARMS if arm.id == entry["choice"]["arm"][1])
    for number in range(10):
        trial = outcome(
            gain=-1.0, visit=50 + number, cookie=777 + number, generation=int(entry["generation"]),
            weight=int(entry["choice"]["weight"][1]), weights=65_535,
        )  # fmt: skip
        look(daemon, kernel, now, 15, trial)
    slot = born(daemon, kernel, 1, 0)

    def width() -> float:
        (prefix,) = ask(daemon, "visits.get")["prefixes"]  # type: ignore[misc]
        return float(prefix["effects"][tried]["upper"] - prefix["effects"][tried]["lower"])

    def counts() -> tuple[object, object, object]:
        told = ask(daemon, "visits.get")
        (prefix,) = told["prefixes"]  # type: ignore[misc]
        return metrics(daemon)["ltp_switcher_visits_surprises"], told["surprises"], prefix["surprises"]

    def why() -> str:
        return str(ask(daemon, "flows.get", cookie="1")["why"]["sentence"])  # type: ignore[index]

    before = width()
    look(daemon, kernel, now, 3)
    assert width() == pytest.approx(before, abs=0.01)
    assert counts() == (0, 0, 0)
    assert "starved" not in why()
    monkeypatch.setattr(daemon.engine.chooser, "starved", lambda slots: slots == slot)
    look(daemon, kernel, now, 3)
    assert width() > before + 0.1
    assert counts() == (1, 1, 1)
    look(daemon, kernel, now, 3)
    assert counts() == (1, 1, 1)
    assert why().endswith(
        f"An arm of the decision starved on {PREFIX}, which opened trials there anew, once since the "
        "daemon's start."
    )
    for _ in range(2):
        now[0] += 500
        look(daemon, kernel, now, 1)
    assert counts() == (1, 1, 1), "there was no calm time"
    now[0] += 700
    look(daemon, kernel, now, 1)
    assert counts() == (2, 2, 2)
    assert "anew, 2 times" in why()
    assert main(["visits"]) == 0
    summary, heads, row = capsys.readouterr().out.strip().splitlines()
    assert "2 surprises" in summary
    assert row[heads.index("SURPRISES") :].split()[0] == "2"


def test_the_command_shows_plan_and_effects(
    make: Make, kernel: Kernel, now: list[float], capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    daemon = make()
    monkeypatch.setattr(visits_command, "ask", lambda _, method, **params: ask(daemon, method, **params))
    teach(daemon, kernel, now)
    assert main(["visits"]) == 0
    out = capsys.readouterr().out
    assert "1 prefixes, arms cubic, bbr, vegas; since the start 20 visits, 0 of them trials; 0 changes" in out
    assert PREFIX in out
    assert main(["visits", "--json", "--prefix", "192.0.2.200"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["prefixes"]
    assert (told["prefix"], told["incumbent"], told["visits"]) == (PREFIX, "decision", 20)
    assert set(told["effects"]) == {"cubic", "bbr", "vegas"}
    assert main(["visits", "--terse", "--prefix", "198.51.100.0/24"]) == 0
    assert capsys.readouterr().out == ""
    assert main(["visits", "--prefix", "10.0.0.0/8"]) == 2
    assert "an address, or a network of at least 24 bits" in capsys.readouterr().err


def by_visits(daemon: Daemon, **params: object) -> dict[str, object]:
    return ask(daemon, "mpts.start", **{"prefix": PREFIX, "by": "visits", **params})


def test_a_team_is_found_by_visits_and_later_flows_choose_among_it(
    make: Make, kernel: Kernel, now: list[float], capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Vegas earns most. The decision begins on Cubic, which is the module's default."""
    daemon = make()
    monkeypatch.setattr(show, "ask", lambda _, method, **params: ask(daemon, method, **params))
    gains = {CUBIC: 0.0, BBR: -0.5, VEGAS: 0.5}
    Methods(daemon).handle("k.set", {"k": 1}, CALLER)
    Methods(daemon).handle("config.set", {"values": {"mpts": {"budget": 6}}}, CALLER)
    look(daemon, kernel, now, 25, outcome(visit=1))
    assert main(["mpts", "start", PREFIX, "--by", "visits"]) == 0
    assert "0 of 6 visits; cost: 0.0 flows" in " ".join(capsys.readouterr().out.split())
    (search,) = ask(daemon, "mpts.status")["searches"]  # type: ignore[misc]
    assert (search["method"], search["k"], search["budget"]) == ("visits", 1, 6)
    look(daemon, kernel, now, 2)
    for number in range(2, 8):
        (search,) = ask(daemon, "mpts.status")["searches"]  # type: ignore[misc]
        assert search["pulls"] == number - 2
        choice = kernel.entries[PREFIX]["choice"]
        due = int(choice["arm"][1])
        assert int(choice["weight"][1]) == 32_767
        told = {**lot_of(kernel.entries[PREFIX], 1), "visit": number}
        look(daemon, kernel, now, 15, outcome(gain=gains[due], cookie=100 + number, **told))
    assert ask(daemon, "mpts.status")["running"] is False
    slot = born(daemon, kernel, 1, 0)
    (team,) = ask(daemon, "mpts.status")["teams"]  # type: ignore[misc]
    assert (team["prefix"], team["arms"], team["method"]) == (PREFIX, ["vegas"], "visits")
    assert sorted(team["log_ratio"], key=team["log_ratio"].get) == ["bbr", "cubic", "vegas"]
    assert team["mean_reward"] == {}
    # Three visits at least are bad ones, and at most one flow's reward each.
    assert -3 <= team["cost_flows"] <= 3
    assert ask(daemon, "pool.get")["teams"] == {PREFIX: ["vegas"]}
    assert daemon.engine.teams._prefix[slot] == PREFIX
    assert main(["mpts"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"found; cost: {team['cost_flows']:.1f} flows" in shown
    assert main(["mpts", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["teams"] == [team]


def test_arms_that_cannot_begin_a_flow_are_left_out(
    make: Make, kernel: Kernel, now: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An arm that was loaded after the start is no candidate either, because no policy knows it."""
    monkeypatch.setattr(kernel, "arms", lambda: [*ARMS, *LEARNED_ARMS])
    daemon = make()
    loaded = [arm if arm.id != YEAH else kernel.load_arm("yeah") for arm in kernel.arms()]
    monkeypatch.setattr(kernel, "arms", lambda: loaded)
    ask(daemon, "arms.load", name="yeah")
    assert any(arm.name == "yeah" and arm.available for arm in daemon.arms)
    look(daemon, kernel, now, 25, outcome(visit=1))
    Methods(daemon).handle("k.set", {"k": 2}, CALLER)
    (search,) = by_visits(daemon)["searches"]  # type: ignore[misc]
    assert list(search["log_ratio"]) == ["cubic", "bbr", "vegas", "ltp"]


@pytest.mark.parametrize(
    ("learn", "mode", "params", "field", "value", "allowed"),
    [
        ("off", "active", {}, "visits.learn", "off", "on"),
        ("on", "advise", {}, "daemon.mode", "advise", "active"),
        ("on", "active", {"prefix": None}, "prefix", None, "one prefix"),
        ("on", "active", {"prefix": "10.0.0.0/8"}, "prefix", "10.0.0.0/8", "at least 24 bits"),
        ("on", "active", {"prefix": "10.0.0.1"}, "prefix", "10.0.0.1", "`ltp-switcher visits`"),
        ("on", "active", {}, "pool.k", 3, "1 to 2"),
        ("on", "active", {"by": "flows"}, "by", "flows", "round-trips, visits"),
    ],
)
def test_a_selection_by_visits_that_cannot_run_is_refused(
    make: Make, kernel: Kernel, now: list[float], learn: str, mode: str, params: dict[str, object],
    field: str, value: object, allowed: str,
) -> None:  # fmt: skip
    daemon = make(learn, mode)
    look(daemon, kernel, now, 2, outcome(visit=1))
    with pytest.raises(InvalidValueError) as caught:
        by_visits(daemon, **params)
    assert (caught.value.field, caught.value.value) == (field, value)
    assert allowed in caught.value.allowed
    assert not daemon.engine.teams.searches


def test_no_selection_by_visits_runs_where_a_policy_rules(
    make: Make, kernel: Kernel, now: list[float]
) -> None:
    daemon = make()
    Methods(daemon).handle("k.set", {"k": 1}, CALLER)
    look(daemon, kernel, now, 2, outcome(visit=1))
    by_visits(daemon)
    daemon.set_policies(parse([{"prefix": PREFIX, "pin": "vegas"}], arms=["vegas"]), CALLER)
    look(daemon, kernel, now, 2)
    (ended,) = ask(daemon, "mpts.status")["given_up"]  # type: ignore[misc]
    assert (ended["prefix"], ended["pulls"]) == (PREFIX, 0)
    assert ended["reason"] == "a policy or an experiment chooses the prefix's arms now"
    look(daemon, kernel, now, 10)
    with pytest.raises(InvalidValueError) as caught:
        by_visits(daemon)
    assert (caught.value.field, "no policy" in caught.value.allowed) == ("prefix", True)

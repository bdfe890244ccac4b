# SPDX-License-Identifier: Apache-2.0
"""The daemon's side of the exchange with other hosts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.fake_kernel import Kernel
from support.records import NETNS
from support.running_daemon import close, make_daemon

from ltp_switcher.daemon.control.caller import Caller
from ltp_switcher.daemon.control.methods import Methods
from ltp_switcher.daemon.service.daemon import Daemon
from ltp_switcher.daemon.settings.rule_policy import RuleSection
from ltp_switcher.daemon.settings.schema import Config, DaemonSection, VisitsSection
from ltp_switcher.encoder import GRUEncoder
from ltp_switcher.errors import InvalidValueError

A, B = "192.0.2.0/24", "2001:db8:7::/48"
CALLER = Caller(0, 0)


@pytest.fixture
def methods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Methods]:
    with methods_of(tmp_path, monkeypatch) as made:
        yield made


@contextlib.contextmanager
def methods_of(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    policy: str = "rule",
    rule: RuleSection | None = None,
) -> Iterator[Methods]:
    monkeypatch.setattr("ltp_switcher.daemon.datapath.netlink.own_namespace", lambda: NETNS)
    section = DaemonSection(
        mode="active", state_dir=str(folder), control_socket=str(folder / "control.sock"), policy=policy
    )
    config = Config(daemon=section, visits=VisitsSection("on"), rule=rule or RuleSection())
    daemon: Daemon = make_daemon(Kernel(), config, monkeypatch)
    yield Methods(daemon)
    close(daemon)


def lesson(prefix: str = A, **changes: object) -> dict[str, object]:
    return {"prefix": prefix, "from": ["b"], "arms": {"bbr": [0.5, 0.1]}, **changes}


def tell(methods: Methods, **params: object) -> object:
    return methods.handle("fleet.tell", params, CALLER)  # type: ignore[arg-type]


def told(methods: Methods) -> dict[str, object]:
    found = methods.handle("fleet.get", {}, CALLER)
    assert isinstance(found, dict)
    return found  # type: ignore[return-value]


def test_what_others_know_is_taken_over_and_told(methods: Methods) -> None:
    assert told(methods)["prefixes"] == []
    tell(methods, lessons=[lesson(), lesson(B, arms={"vegas": [-6.0, 100.0], "no_such_arm": [0.1, 0.1]})])
    found = {one["prefix"]: one for one in told(methods)["prefixes"]}  # type: ignore[attr-defined]
    assert found.keys() == {A, B}
    assert (found[A]["from"], found[A]["hosts"], found[A]["visits"]) == (["b"], 1, 0)
    assert found[A]["effects"]["bbr"]["mean"] > 0.3
    assert "no_such_arm" not in found[B]["effects"]
    assert (told(methods)["running"], told(methods)["share"]) == (False, False)


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        ({"prefix": "10.0.0.0/8"}, "prefix"),
        ({"prefix": "192.0.2.7"}, "prefix"),
        ({"prefix": 7}, "lessons[1].prefix"),
        ({"prefix": "192.0.2.0/24 "}, "lessons[1].prefix"),
        ({"prefix": B}, "lessons[1].prefix"),
        ({"from": "b"}, "lessons[1].from"),
        ({"from": ["b c"]}, "lessons[1].from"),
        ({"arms": []}, "lessons[1].arms"),
        ({"arms": {"bbr": [6.1, 0.1]}}, "lessons[1].arms.bbr"),
        ({"arms": {"bbr": [0.1, 0.0]}}, "lessons[1].arms.bbr"),
        ({"arms": {"bbr": [0.1, 101]}}, "lessons[1].arms.bbr"),
        ({"arms": {"bbr": [0.1]}}, "lessons[1].arms.bbr"),
        ({"arms": {"bbr": [True, 0.1]}}, "lessons[1].arms.bbr"),
        ({"arms": {"bbr": [float("nan"), 0.1]}}, "lessons[1].arms.bbr"),
        ({"more": 1}, "lessons[1]"),
    ],
)
def test_one_bad_lesson_and_nothing_is_taken_over(
    methods: Methods, bad: dict[str, object], field: str
) -> None:
    with pytest.raises(InvalidValueError) as caught:
        tell(methods, lessons=[lesson(B), lesson(**bad)])  # type: ignore[arg-type]
    assert caught.value.field == field
    assert told(methods)["prefixes"] == []


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"lessons": {}}, "lessons"), ({"status": []}, "status"), ({"status": {"host": "a"}}, "status"),
        ({"hosts": [{}]}, "hosts[0]"), ({"hosts": 7}, "hosts"),
    ],
)  # fmt: skip
def test_other_shapes_are_refused(methods: Methods, params: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        tell(methods, **params)
    assert caught.value.field == field


@pytest.mark.parametrize("since", [None, "1:2", "x", "1:999999999999999999999999", ":"])
def test_any_cursor_of_another_daemon_begins_anew(methods: Methods, since: str | None) -> None:
    tell(methods, lessons=[lesson()])
    answer = methods.handle("fleet.lessons", {"since": since}, CALLER)
    assert answer.rest["learn"] is True  # type: ignore[union-attr]
    # What others know is no lesson of this host.
    assert list(answer.items) == []  # type: ignore[union-attr, arg-type]


def test_what_was_told_of_a_host_grows_older_while_the_service_is_silent(
    methods: Methods, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    monkeypatch.setattr("ltp_switcher.daemon.control.fleet_methods.time.monotonic", lambda: clock[0])
    host = {
        "name": "b", "version": "", "age_s": 2.0, "lessons": 1, "refused": 0, "other_version": 0,
        "other_model": 0, "compared": 0.0, "apart": 0.0, "disagrees": False, "shut_out": False,
    }  # fmt: skip
    tell(methods, hosts=[host])
    clock[0] += 3600.0
    (found,) = told(methods)["hosts"]  # type: ignore[misc]
    assert found == {**host, "age_s": 3602.0}


def test_lessons_are_about_the_encoder_where_it_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def model(policy: str) -> object:
        with methods_of(tmp_path, monkeypatch, policy) as methods:
            return methods.handle("fleet.lessons", {"since": None}, CALLER).rest["model"]  # type: ignore[union-attr]

    learned, ruled = model("mutant"), model("rule")
    assert (model("mutant"), model("rule")) == (learned, ruled)
    artifact = GRUEncoder.from_file().artifact
    weights = {**artifact.weights, "fc2_bias": artifact.weights["fc2_bias"] + 1}
    other = GRUEncoder(replace(artifact, weights=weights))
    monkeypatch.setattr(GRUEncoder, "from_file", lambda: other)
    assert model("mutant") != learned
    # The rule asks no encoder, and what was learned over its choice holds on.
    assert model("rule") == ruled


@pytest.mark.parametrize("policy", ["rule", "mutant"])
def test_lessons_are_about_the_rule_where_it_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    def model(rule: RuleSection) -> object:
        with methods_of(tmp_path, monkeypatch, policy, rule) as methods:
            return methods.handle("fleet.lessons", {"since": None}, CALLER).rest["model"]  # type: ignore[union-attr]

    usual = RuleSection()
    assert model(usual) != model(replace(usual, start_s=2 * usual.start_s))

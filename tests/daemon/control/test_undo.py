# SPDX-License-Identifier: Apache-2.0
"""Changes that are reverted, or that undo themselves because nobody confirms them; and the audit file."""

from __future__ import annotations

import json
import stat
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltp_switcher.daemon.control import audit
from ltp_switcher.daemon.control.answers import StaleError
from ltp_switcher.daemon.control.caller import Caller
from ltp_switcher.daemon.control.choices import Choices
from ltp_switcher.daemon.control.client import Json
from ltp_switcher.daemon.control.overrides import Change
from ltp_switcher.daemon.settings.layers import Layers, Origin
from ltp_switcher.daemon.settings.policies import Policies, parse
from ltp_switcher.errors import ArtifactError, InvalidValueError, RefusedError

ME = Caller(1000, 7)
FILE = Layers().over(Origin.FILE, {"pool.k": 3, "mpts.budget": 100})
SSH = parse([{"port": 22, "exclude": True}])
WEB = parse([{"port": 443, "exclude": True}])


def anything(_: object) -> None:
    """What can be applied."""


def opened(folder: Path | None = None) -> Choices:
    return Choices(FILE, folder, anything)


def revert(choices: Choices, number: int) -> None:
    choices.revert(number, anything, anything, ME)


def test_a_setting_gets_back_the_layer_that_it_had() -> None:
    choices = opened()
    choices.change({"pool.k": 2}, anything, ME)
    revert(choices, 1)
    assert (choices.config.pool.k, choices.layers.origins()["pool.k"]) == (3, Origin.FILE)
    choices.change({"pool.k": 4}, anything, ME)
    choices.change({"pool.k": 5}, anything, ME, runtime=True)
    revert(choices, choices.changes[-1].number)
    assert (choices.config.pool.k, choices.layers.origins()["pool.k"]) == (4, Origin.OVERRIDE)


SETTINGS = st.dictionaries(
    st.sampled_from(["pool.k", "mpts.budget", "mpts.share"]),
    st.one_of(st.none(), st.integers(1, 9)),
    min_size=1,
)


@given(steps=st.lists(st.tuples(SETTINGS, st.booleans()), min_size=1, max_size=6))
def test_to_revert_all_changes_backwards_ends_where_they_began(
    steps: list[tuple[dict[str, Json], bool]],
) -> None:
    choices = opened()
    states = [(choices.config, choices.layers.origins())]
    numbers: list[list[int]] = []
    for values, runtime in steps:
        given_values = {name: 0.5 if name == "mpts.share" and v else v for name, v in values.items()}
        before = len(choices.changes)
        choices.change(given_values, anything, ME, runtime=runtime)
        numbers.append([change.number for change in choices.changes[before:]])
        states.append((choices.config, choices.layers.origins()))
    kept = [number for step in numbers for number in step]
    if len(kept) > 9:
        return
    for step, (config, origins) in zip(reversed(numbers), reversed(states[:-1]), strict=True):
        for number in reversed(step):
            revert(choices, number)
        assert (choices.config, choices.layers.origins()) == (config, origins)


def test_what_was_changed_again_since_is_not_reverted() -> None:
    choices = opened()
    choices.change({"pool.k": 2}, anything, ME)
    choices.change({"pool.k": 4}, anything, ME)
    with pytest.raises(StaleError, match="by change 2; revert that first"):
        revert(choices, 1)
    revert(choices, 2)
    revert(choices, 1)
    assert choices.config.pool.k == 3


def test_policies_are_reverted_and_applied() -> None:
    choices, applied = opened(), []
    choices.set_policies(SSH, anything, ME)
    choices.set_policies(WEB, anything, ME)
    choices.revert(2, anything, applied.append, ME)
    assert choices.policies.entries == applied[-1].entries == SSH.entries
    choices.revert(1, anything, applied.append, ME)
    assert not choices.policies


def test_what_has_no_way_back_is_named() -> None:
    choices = opened()
    choices.change({"pool.k": 2}, anything, ME)
    choices.tell("configuration", None, "reloaded", ME)
    for number in (0, 2, 3):
        with pytest.raises(InvalidValueError, match="of the policies: 1"):
            revert(choices, number)


def test_all_overrides_are_dropped_at_once() -> None:
    choices = opened()
    choices.change({"pool.k": 2, "mpts.budget": 50}, anything, ME)
    choices.change({"mpts.share": 0.5}, anything, ME, runtime=True)
    choices.set_policies(SSH, anything, ME)
    choices.clear(anything, ME)
    assert choices.config == FILE.config()
    assert choices.policies.entries == SSH.entries
    assert {change.what for change in choices.changes[-3:]} == {"pool.k", "mpts.budget", "mpts.share"}


def test_a_change_that_nobody_confirms_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    choices = opened()
    with choices.trying(60):
        choices.change({"pool.k": 2, "mpts.budget": 50}, anything, ME)
    assert choices.waiting == {1: 60.0, 2: 60.0}
    with pytest.raises(RefusedError, match="change 1, 2 waits"), choices.trying(5):
        pass
    now_s += 59
    assert not choices.overdue
    now_s += 1
    assert choices.overdue
    choices.give_up(anything, anything)
    assert choices.config == FILE.config()
    assert not choices.overdue
    assert [(one.what, one.before, one.after) for one in choices.changes[2:]] == [
        ("mpts.budget", 50, 100),
        ("pool.k", 2, 3),
    ]


def test_a_change_that_is_confirmed_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    choices = opened()
    with pytest.raises(RefusedError, match="no change waits"):
        choices.confirm(ME)
    with choices.trying(60):
        choices.change({"pool.k": 2}, anything, ME)
    assert choices.confirm(ME)[0] == (1,)
    now_s += 1000
    assert not choices.overdue
    assert choices.config.pool.k == 2


def test_what_somebody_changed_again_meanwhile_stays() -> None:
    choices = opened()
    with choices.trying(60):
        choices.change({"pool.k": 2, "mpts.budget": 50}, anything, ME)
    choices.change({"pool.k": 5}, anything, ME)
    choices.give_up(anything, anything)
    assert (choices.config.pool.k, choices.config.mpts.budget) == (5, 100)


@pytest.mark.parametrize("runtime", [False, True])
def test_the_next_start_undoes_what_nobody_confirmed(tmp_path: Path, runtime: bool) -> None:
    choices = opened(tmp_path)
    choices.change({"pool.k": 4}, anything, ME)
    with choices.trying(86_400):
        choices.change({"pool.k": 2}, anything, ME, runtime=runtime)
    with pytest.raises(RefusedError), choices.trying(60):
        pass
    choices.close()
    again = opened(tmp_path)
    assert (again.config.pool.k, again.layers.origins()["pool.k"]) == (4, Origin.OVERRIDE)
    assert not again.waiting
    again.close()
    assert opened(tmp_path).config.pool.k == 4


def test_the_next_start_undoes_policies_too(tmp_path: Path) -> None:
    choices = opened(tmp_path)
    choices.set_policies(SSH, anything, ME)
    with choices.trying(60):
        choices.set_policies(Policies(()), anything, ME)
    choices.close()
    assert opened(tmp_path).policies.entries == SSH.entries


def test_a_confirmed_change_outlives_the_daemon(tmp_path: Path) -> None:
    choices = opened(tmp_path)
    with choices.trying(60):
        choices.change({"pool.k": 2}, anything, ME)
    choices.confirm(ME)
    choices.close()
    assert opened(tmp_path).config.pool.k == 2


def test_every_change_is_in_the_audit_file_once(tmp_path: Path) -> None:
    for turn in range(3):
        choices = opened(tmp_path)
        for budget in range(60):
            choices.change({"mpts.budget": 10 + budget + 100 * turn}, anything, ME)
        choices.close()
    place = tmp_path / "audit.jsonl"
    assert stat.S_IMODE(place.stat().st_mode) == 0o640
    lines = [json.loads(line) for line in place.read_text().splitlines()]
    assert [line["number"] for line in lines] == list(range(1, 181)), "the list of changes has 100"
    assert lines[7]["caller"] == {"uid": 1000, "pid": 7, "token": None, "via": None}
    assert (lines[7]["what"], lines[7]["before"], lines[7]["after"]) == ("mpts.budget", 16, 17)


def test_the_audit_file_is_bounded_and_loses_the_oldest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "BYTES_MAX", 2000)
    for number in range(1, 200):
        audit.append(tmp_path / "a", [Change(0.0, ME, "pool.k", 1, 2, True, number)])
    places = sorted(tmp_path.iterdir())
    assert [place.name for place in places] == ["a", "a.1", "a.2", "a.3", "a.4"]
    assert all(place.stat().st_size <= 2000 for place in places)
    order = [places[0], *places[1:]][::-1]
    numbers = [json.loads(line)["number"] for place in order for line in place.read_text().splitlines()]
    assert numbers == list(range(numbers[0], 200))


def test_after_a_crash_within_a_line_the_next_one_can_be_read(tmp_path: Path) -> None:
    change = Change(0.0, ME, "pool.k", 1, 2, True, 1)
    audit.append(tmp_path / "a", [change])
    with (tmp_path / "a").open("a") as file:
        file.write('{"number": 2, "wh')
    audit.append(tmp_path / "a", [change])
    lines = (tmp_path / "a").read_text().splitlines()
    assert [json.loads(lines[0]), json.loads(lines[-1])] == [audit.change_json(change)] * 2


def test_a_disk_that_takes_half_a_line_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change = Change(0.0, ME, "pool.k", 1, 2, True, 1)
    audit.append(tmp_path / "a", [change])
    whole = (tmp_path / "a").read_bytes()
    real = audit.os.write
    monkeypatch.setattr(audit.os, "write", lambda place, text: real(place, text[:10]))
    with pytest.raises(ArtifactError, match="the disk is full"):
        audit.append(tmp_path / "a", [change])
    assert (tmp_path / "a").read_bytes() == whole


def test_what_the_audit_file_could_not_take_comes_later(tmp_path: Path) -> None:
    (tmp_path / "audit.jsonl").mkdir()
    choices = opened(tmp_path)
    save = choices.change({"pool.k": 2}, anything, ME)
    while not save.done:
        time.sleep(0.001)
    assert "audit.jsonl cannot be written" in save.error
    (tmp_path / "audit.jsonl").rmdir()
    choices.change({"pool.k": 4}, anything, ME)
    choices.close()
    lines = (tmp_path / "audit.jsonl").read_text().splitlines()
    assert [json.loads(line)["after"] for line in lines] == [2, 4]

# SPDX-License-Identifier: Apache-2.0
"""Choices over the configuration: their order, their refusal, and their fate in a later daemon."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from support.damage import KINDS, damage

from ltp_switcher.daemon.control.caller import Caller
from ltp_switcher.daemon.control.choices import Choices
from ltp_switcher.daemon.control.overrides import CHANGES_MAX, FILE_NAME, Overrides, Pin, encode
from ltp_switcher.daemon.settings.layers import Layers, Origin
from ltp_switcher.daemon.settings.policies import parse
from ltp_switcher.daemon.settings.schema import Config
from ltp_switcher.errors import ConfigError, DatapathError

ME = Caller(1000, 7)
FILE = Layers({Origin.FILE: {"pool.k": 3, "mpts.budget": 50}})


def anything(_: Config) -> None:
    """Refuses nothing."""


def opened(folder: Path | None, layers: Layers = FILE) -> Choices:
    return Choices(layers, folder, anything)


def test_a_choice_outlives_the_daemon_and_a_choice_for_the_moment_does_not(tmp_path: Path) -> None:
    first = opened(tmp_path)
    first.change({"pool.k": 2}, anything, ME)
    first.change({"mpts.budget": 60}, anything, ME, runtime=True)
    assert (first.config.pool.k, first.config.mpts.budget) == (2, 60)
    first.close()
    second = opened(tmp_path)
    assert (second.config.pool.k, second.config.mpts.budget) == (2, 50)
    assert [change.what for change in second.changes] == ["pool.k", "mpts.budget"]


def test_each_value_tells_its_origin() -> None:
    choices = opened(None, FILE.over(Origin.ENVIRONMENT, {"mpts.share": 0.5}))
    choices.change({"pool.k": 2}, anything, ME)
    choices.change({"daemon.mode": "off"}, anything, ME, runtime=True)
    found = choices.layers.origins()
    keys = ("pool.k", "daemon.mode", "mpts.budget", "mpts.share", "daemon.seed")
    assert [found[key] for key in keys] == ["override", "runtime", "file", "environment", "default"]


def test_a_lasting_choice_ends_one_for_the_moment_and_dropping_ends_both() -> None:
    choices = opened(None)
    choices.change({"pool.k": 2}, anything, ME, runtime=True)
    choices.change({"pool.k": 4}, anything, ME)
    assert choices.config.pool.k == 4
    choices.change({"pool.k": 5}, anything, ME, runtime=True)
    assert choices.config.pool.k == 5
    choices.change({"pool.k": None}, anything, ME)
    assert (choices.config.pool.k, choices.layers.origins()["pool.k"]) == (3, "file")


def test_all_values_are_set_or_none(tmp_path: Path) -> None:
    choices = opened(tmp_path)

    def refuse(_: Config) -> None:
        raise DatapathError("the module is gone")

    with pytest.raises(ConfigError, match=r"pool\.k"):
        choices.change({"mpts.budget": 70, "pool.k": 0}, anything, ME)
    with pytest.raises(ConfigError, match=r"no such key"):
        choices.change({"mpts.budget": 70, "pool.kk": None}, anything, ME)
    with pytest.raises(DatapathError):
        choices.change({"mpts.budget": 70}, refuse, ME)
    assert choices.config.mpts.budget == 50
    assert choices.changes == []
    choices.close()
    assert not (tmp_path / FILE_NAME).exists()


def test_what_needs_a_restart_is_for_the_file() -> None:
    with pytest.raises(ConfigError, match="a value in the file and a restart"):
        opened(None).change({"daemon.seed": 3}, anything, ME)


def test_a_reload_changes_what_lies_under_the_overrides() -> None:
    choices = opened(None)
    choices.change({"pool.k": 2}, anything, ME)
    choices.reload(Layers({Origin.FILE: {"pool.k": 9, "mpts.budget": 80}}), anything)
    assert (choices.config.pool.k, choices.config.mpts.budget) == (2, 80)
    choices.change({"pool.k": None}, anything, ME)
    assert choices.config.pool.k == 9


def test_a_refused_reload_leaves_the_configuration() -> None:
    choices = opened(None)

    def refuse(_: Config) -> None:
        raise ConfigError("pool.k", 9, "less")

    with pytest.raises(ConfigError):
        choices.reload(Layers({Origin.FILE: {"pool.k": 9}}), refuse)
    choices.change({"mpts.share": 0.5}, anything, ME)
    assert choices.config.pool.k == 3


EXCLUDED = parse([{"prefix": "198.51.100.0/24", "exclude": True}])
ACTIVE = Layers({Origin.FILE: {"daemon.mode": "active"}})


def kept(folder: Path) -> None:
    """Let an operator exclude a prefix."""
    first = opened(folder, ACTIVE)
    first.set_policies(EXCLUDED, lambda _: None, ME)
    first.change({"pool.k": 2}, anything, ME)
    first.close()


@pytest.mark.parametrize("how", [*KINDS, "missing"])
def test_where_the_file_cannot_be_read_its_copy_counts(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    kept(tmp_path)
    damage(tmp_path / FILE_NAME, how)
    second = opened(tmp_path, ACTIVE)
    second.close()
    assert second.policies.entries == EXCLUDED.entries
    assert (second.config.pool.k, second.config.daemon.mode, second.held) == (2, "active", "")
    assert "the last good copy" in caplog.text
    asides = list(tmp_path.glob(f"{FILE_NAME}.corrupt-*"))
    assert len(asides) == (how != "missing")
    assert all(str(aside) in caplog.text for aside in asides)
    damage(tmp_path / f"{FILE_NAME}.good", "empty")
    assert opened(tmp_path, ACTIVE).policies.entries == EXCLUDED.entries, "the file itself was mended"


@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize("configured", ["active", "advise", "off"])
def test_where_nothing_can_be_read_nothing_is_steered(
    tmp_path: Path, how: str, configured: str, caplog: pytest.LogCaptureFixture
) -> None:
    """However often it starts, and whatever the configuration says; until an operator sets the mode."""
    layers = Layers({Origin.FILE: {"daemon.mode": configured}})
    kept(tmp_path)
    for name in (FILE_NAME, f"{FILE_NAME}.good"):
        damage(tmp_path / name, how)
    for _ in range(2):
        choices = opened(tmp_path, layers)
        choices.close()
        assert choices.config.daemon.mode != "active"
        assert "nothing is steered" in choices.held
        assert choices.held in caplog.text
        assert list(tmp_path.glob("*.corrupt-*")) == [], "what was there is still there"
    choices.reload(ACTIVE, anything)
    assert choices.config.daemon.mode != "active"
    choices = opened(tmp_path, layers)
    choices.set_policies(EXCLUDED, lambda _: None, ME)
    choices.close()
    assert len(list(tmp_path.glob("*.corrupt-*"))) == 2
    after = opened(tmp_path, layers)
    assert (after.policies.entries, after.config.daemon.mode == "active") == (EXCLUDED.entries, False)
    after.change({"daemon.mode": "active"}, anything, ME)
    after.close()
    assert (after.held, after.config.daemon.mode) == ("", "active")
    assert opened(tmp_path, layers).config.daemon.mode == "active"


def test_a_policy_that_this_release_cannot_read_holds_the_daemon(tmp_path: Path) -> None:
    """The others count. The file with the policy is set aside once another content takes its place."""
    written = Overrides(
        policies=(*(policy.entry() for policy in EXCLUDED.entries), {"asn": 64500, "exclude": True})
    )
    (tmp_path / FILE_NAME).write_bytes(encode(written))
    choices = opened(tmp_path, ACTIVE)
    assert choices.policies.entries == EXCLUDED.entries
    assert choices.config.daemon.mode == "advise"
    assert "asn" in choices.held
    assert (tmp_path / FILE_NAME).read_bytes() == encode(written)
    choices.change({"pool.k": 2}, anything, ME)
    choices.close()
    (aside,) = tmp_path.glob(f"{FILE_NAME}.corrupt-*")
    assert aside.read_bytes() == encode(written)
    assert opened(tmp_path, ACTIVE).config.daemon.mode == "advise"


def test_a_mode_that_this_release_cannot_take_is_no_reason_to_steer(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(encode(Overrides(settings={"daemon.mode": "careful"})))
    assert opened(tmp_path, ACTIVE).config.daemon.mode == "advise"


def test_an_earlier_release_s_file_gets_its_copy_at_the_start(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(encode(Overrides(settings={"pool.k": 2})))
    opened(tmp_path).close()
    damage(tmp_path / FILE_NAME, "truncated")
    assert opened(tmp_path).config.pool.k == 2


@pytest.mark.parametrize(
    ("name", "value"), [("pool.k", 99), ("pool.gone", 1), ("daemon.seed", 1), ("daemon.mode", None)]
)
def test_what_this_release_cannot_take_counts_no_longer(
    tmp_path: Path, name: str, value: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE_NAME).write_bytes(encode(Overrides(settings={name: value, "mpts.budget": 90})))
    choices = opened(tmp_path)
    assert (choices.config.mpts.budget, choices.config.pool.k, choices.config.daemon.mode) == (
        90,
        3,
        "advise",
    )
    assert f"the override of {name} counts no longer" in caplog.text


def test_what_this_machine_cannot_take_counts_no_longer(tmp_path: Path) -> None:
    kept = Overrides(settings={"pool.arms": ["gone"], "pool.k": 2})
    (tmp_path / FILE_NAME).write_bytes(encode(kept))

    def check(config: Config) -> None:
        if config.pool.arms:
            raise ConfigError("pool.arms", config.pool.arms, "arms of this kernel")

    choices = Choices(FILE, tmp_path, check)
    assert (choices.config.pool.arms, choices.config.pool.k) == ((), 2)


@pytest.mark.parametrize(("boot", "kept"), [("", True), ("another", False)])
def test_pins_are_for_the_boot_whose_cookies_they_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, boot: str, kept: bool
) -> None:
    first = opened(tmp_path)
    first.pinned(7, Pin("bbr", lasts=True), ME)
    first.close()
    if boot:
        (tmp_path / "boot_id").write_text(boot)
        monkeypatch.setattr("ltp_switcher.daemon.control.choices.BOOT_ID", tmp_path / "boot_id")
    assert (7 in opened(tmp_path).pins) is kept


def test_a_change_tells_who_what_from_and_to(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    choices = opened(None)
    heard: list[tuple[str, str]] = []
    choices.heard = lambda what, who: heard.append((what, who))
    choices.change({"pool.k": 2}, anything, Caller(1000, 7, via=Caller(990, 8)))
    (change,) = choices.changes
    assert (change.what, change.before, change.after, change.lasts) == ("pool.k", 3, 2, True)
    words, who = "pool.k is 2 now, was 3", "uid 1000, pid 7, by way of uid 990, pid 8"
    assert heard == [(words, who)]
    assert f"{words} ({who})" in caplog.messages


def test_what_changes_nothing_leaves_no_line() -> None:
    choices = opened(None)
    for _ in range(2):
        choices.change({"pool.k": 3}, anything, ME)
    assert len(choices.changes) == 1, "the first makes the file's value an operator's"


def test_the_last_changes_are_kept(tmp_path: Path) -> None:
    choices = opened(tmp_path)
    for budget in range(1, CHANGES_MAX + 20):
        choices.change({"mpts.budget": budget}, anything, ME)
    choices.close()
    changes = opened(tmp_path).changes
    assert [change.after for change in changes] == list(range(20, CHANGES_MAX + 20))


def test_a_save_that_fails_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    choices = Choices(FILE, tmp_path / "file", anything)
    save = choices.change({"pool.k": 2}, anything, ME)
    choices.close()
    assert save.done
    assert "cannot be written" in save.error or "cannot write" in save.error
    assert choices.config.pool.k == 2

# SPDX-License-Identifier: Apache-2.0
"""Settings of the daemon in scenarios and on the command line."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from ltp_switcher.daemon.settings import load as config_load
from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.run.bundled import find_scenario
from ltp_switcher.eval.run.daemon_settings import parse_assignments, to_config
from ltp_switcher.eval.run.scenario import parse_scenario

SCENARIO = """
name = "s"
duration_s = 5
[link]
rate_mbps = 10
rtt_ms = 20
[[flow]]
scheme = "switcher"
[settings.kernel]
restore = "rebase"
[settings.pool]
arms = ["cubic", "bbr"]
"""


def test_settings_reach_the_daemon_as_its_own_file_would(tmp_path: Path) -> None:
    scenario = parse_scenario(tomllib.loads(SCENARIO)).with_settings(
        parse_assignments(["kernel.restore=reinit", "learning.alpha=0.5"])
    )
    path = tmp_path / "daemon.toml"
    path.write_text(to_config(scenario.settings))
    config = config_load.load(path)
    assert config.kernel.restore == "reinit"
    assert config.pool.arms == ("cubic", "bbr")
    assert config.learning.alpha == 0.5


def test_settings_tell_runs_apart() -> None:
    scenario = find_scenario("smoke")
    changed = scenario.with_settings(parse_assignments(["mpts.share=0.05"]))
    assert changed.canonical() != scenario.canonical()
    assert changed == scenario.with_settings(parse_assignments(["mpts.share=0.05"]))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("kernel.restore=never", "kernel.restore"),
        ("kernel.restor=as-is", "kernel.restor"),
        ("restore", "setting"),
        ("daemon.seed=3", "settings.daemon.seed"),
        ("daemon.policy=random", "settings.daemon.policy"),
    ],
)
def test_bad_settings_name_the_key(text: str, named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_assignments([text])
    assert named in str(caught.value)


def test_scenario_settings_must_be_tables() -> None:
    with pytest.raises(ConfigError, match="settings"):
        parse_scenario({**tomllib.loads(SCENARIO), "settings": "reinit"})

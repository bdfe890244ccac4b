# SPDX-License-Identifier: Apache-2.0
import re
import tomllib
from pathlib import Path

import pytest

from ltp_switcher.daemon.settings.load import as_dict, changed, example, load, parse_text
from ltp_switcher.daemon.settings.rules import check
from ltp_switcher.daemon.settings.schema import GONE, Config, LearningSection, schema
from ltp_switcher.errors import ConfigError

REPOSITORY = Path(__file__).parents[3]


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "config.toml"
    file.write_text(text)
    return file


def test_flag_over_environment_over_file_over_default(tmp_path: Path) -> None:
    file = write(tmp_path, '[daemon]\nmode = "advise"\nstep_ms = 20\nseed = 2\n')
    environment = {"LTP_SWITCHER_DAEMON_STEP_MS": "30", "LTP_SWITCHER_DAEMON_SEED": "3", "PATH": "/bin"}
    config = load(file, environment, {"daemon.seed": 4})
    assert (config.daemon.mode, config.daemon.step_ms, config.daemon.seed) == ("advise", 30.0, 4)
    assert config.daemon.idle_step_ms == Config().daemon.idle_step_ms


def test_lists_and_switches_from_the_environment() -> None:
    environment = {"LTP_SWITCHER_POOL_ARMS": "bbr, cubic", "LTP_SWITCHER_MPTS_ENABLED": "false"}
    config = load(None, environment)
    assert config.pool.arms == ("bbr", "cubic")
    assert config.mpts.enabled is False


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('[daemon]\nmoed = "off"', ["daemon.moed", "'off'", "did you mean daemon.mode?"]),
        ('[demon]\nmode = "off"', ["demon.mode", "no such section", "did you mean daemon?"]),
        ('mode = "off"', ["mode", "no such section"]),
        (
            '[daemon]\nmode = "activ"',
            ["daemon.mode", "'activ'", "active, advise, off", "did you mean active?"],
        ),
        ("[daemon]\nstep_ms = 0.5", ["daemon.step_ms", "0.5", "from 1 to 2000"]),
        ('[daemon]\nstep_ms = "10"', ["daemon.step_ms", "'10'", "a number"]),
        ("[daemon]\nseed = 1.5", ["daemon.seed", "1.5", "a whole number"]),
        ("[daemon]\nseed = true", ["daemon.seed", "True", "a whole number"]),
        ('[pool]\narms = "bbr"', ["pool.arms", "'bbr'", "a list of texts"]),
        ("[mpts]\nenabled = 1", ["mpts.enabled", "1", "true or false"]),
        (
            '[learned]\nvariants = ["spine-cubik"]',
            ["learned.variants", "'spine-cubik'", "owl-loss", "did you mean spine-cubic?"],
        ),
        (
            '[learned]\nvariants = ["owl", "spine", "owl-loss"]',
            ["learned.variants", "'owl-loss'", "one of owl-loss and owl"],
        ),
        ("[daemon\n", ["config.toml", "a TOML file"]),
    ],
)
def test_what_is_wrong_names_key_value_and_what_is_allowed(
    tmp_path: Path, text: str, names: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(write(tmp_path, text))
    for name in names:
        assert name in str(caught.value)


def test_wrong_variables_are_named() -> None:
    with pytest.raises(
        ConfigError, match=r"LTP_SWITCHER_DAEMON_STEPMS.*did you mean LTP_SWITCHER_DAEMON_STEP_MS"
    ):
        load(None, {"LTP_SWITCHER_DAEMON_STEPMS": "10"})
    with pytest.raises(ConfigError, match="LTP_SWITCHER_DAEMON_SEED: 'x'"):
        load(None, {"LTP_SWITCHER_DAEMON_SEED": "x"})


def test_a_file_of_an_earlier_version_is_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = write(tmp_path, "[rule]\nshort_ms = 5.0\nstart_s = 2.5\n")
    assert load(file, {}).rule.start_s == 2.5
    assert load(None, {"LTP_SWITCHER_RULE_SHORT_MS": "4"}) == Config()
    (of_file, of_variable) = caplog.messages
    assert "rule.short_ms" in of_file
    assert str(file) in of_file
    assert "LTP_SWITCHER_RULE_SHORT_MS" in of_variable
    # A person who sets it now is told.
    with pytest.raises(ConfigError, match="no setting any more"):
        load(None, {}, {"rule.short_ms": 4.0})


def test_no_key_is_both_there_and_gone() -> None:
    assert not GONE.keys() & schema().keys()


def test_a_file_that_was_named_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a file that can be read"):
        load(tmp_path / "none.toml")


def test_the_example_documents_every_key_with_its_default() -> None:
    text = example()
    uncommented = "\n".join(
        line.removeprefix("#") if line.startswith("#") and not line.startswith("# ") else line
        for line in text.splitlines()
    )
    values = tomllib.loads(uncommented)
    expected = {
        s: {k: list(v) if isinstance(v, tuple) else v for k, v in d.items()}
        for s, d in as_dict(Config()).items()
    }
    assert values == expected
    assert tomllib.loads(text) == {section: {} for section in expected}


def test_nothing_is_switched_until_an_operator_says_so() -> None:
    assert load(None, {}).daemon.mode == "advise"


def test_the_environment_names_file_and_socket(tmp_path: Path) -> None:
    for name, k in (("a", 2), ("b", 3)):
        (tmp_path / name).write_text(f"[pool]\nk = {k}\n[daemon]\ncontrol_socket = '/file.sock'\n")
    named = {"LTP_SWITCHER_CONFIG": str(tmp_path / "a"), "LTP_SWITCHER_SOCKET": "/env.sock"}
    config = load(None, named)
    assert (config.pool.k, config.daemon.control_socket) == (2, "/env.sock")
    assert load(tmp_path / "b", named).pool.k == 3, "a flag goes before the environment"
    longer = {**named, "LTP_SWITCHER_DAEMON_CONTROL_SOCKET": "/long.sock"}
    assert load(None, longer).daemon.control_socket == "/long.sock"
    with pytest.raises(ConfigError, match="nowhere"):
        load(None, {"LTP_SWITCHER_CONFIG": str(tmp_path / "nowhere")})


def test_the_packaged_file_is_the_example() -> None:
    packaged = (REPOSITORY / "packaging" / "config.toml").read_text()
    assert packaged == example(), "run: ltp-switcher config --example > packaging/config.toml"


def test_every_default_keeps_its_own_rule() -> None:
    for key in schema().values():
        assert check(key, key.default) == key.default
        if not isinstance(key.default, tuple):
            assert check(key, parse_text(key, str(key.default))) == key.default


@pytest.mark.parametrize(("field", "value"), [
    ("ucb", "ucb1"), ("credit", "now"), ("discount", 1.5), ("hold_steps", 0), ("hold_steps", 2.5),
    ("zeta", float("nan")), ("decide_on_change", 3), ("alpha", "much"), ("preset", "fast"),
])  # fmt: skip
def test_a_section_made_in_code_keeps_its_rules_too(field: str, value: object) -> None:
    with pytest.raises(ConfigError, match=rf"^learning\.{field}: "):
        LearningSection(**{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ({"daemon.step_ms": 2000}, ["daemon.step_ms: 2000", "at most 500", "kernel.watchdog_ms = 1000"]),
        ({"daemon.idle_step_ms": 501}, ["daemon.idle_step_ms: 501", "at most 500", "at least 1002"]),
        ({"kernel.watchdog_ms": 150}, ["daemon.idle_step_ms: 100", "at most 75", "kernel.watchdog_ms = 150"]),
    ],
)
def test_a_step_leaves_the_watchdog_asleep(values: dict[str, object], names: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        load(None, {}, values)
    for name in names:
        assert name in str(caught.value)


@pytest.mark.parametrize("watchdog_ms", [0, 4000])
def test_a_long_step_needs_a_patient_watchdog(watchdog_ms: int) -> None:
    config = load(None, {}, {"daemon.step_ms": 2000, "kernel.watchdog_ms": watchdog_ms})
    assert config.daemon.step_ms == 2000


def test_the_service_manager_waits_for_the_longest_step() -> None:
    """It is told after a step, at most every half of `WatchdogSec`: the gap is up to that half and a step."""
    unit = (REPOSITORY / "packaging/systemd/ltp-switcher.service").read_text()
    (watchdog_s,) = map(float, re.findall(r"^WatchdogSec=(\d+)$", unit, re.MULTILINE))
    for name in ("step_ms", "idle_step_ms"):
        longest_ms = schema()[f"daemon.{name}"].rule.maximum
        assert longest_ms is not None
        assert watchdog_s / 2 + longest_ms / 1000 < watchdog_s


def test_the_preset_paper_is_in_force_whatever_else_is_set() -> None:
    learning = load(
        None, {}, {"learning.preset": "paper", "learning.zeta": 9, "learning.alpha": 0.3}
    ).learning
    assert (learning.zeta, learning.alpha, learning.ucb) == (5.0, 1.0, "algorithm1")
    assert (learning.credit, learning.hold_rtts, learning.min_rtt) == ("acked", 0.0, "adwin")
    assert load(None, {}, {"learning.zeta": 9}).learning.zeta == 9


def test_a_change_is_found_by_key() -> None:
    new = load(None, {}, {"daemon.mode": "off", "pool.k": 3})
    assert [key.path for key in changed(Config(), new)] == ["daemon.mode", "pool.k"]

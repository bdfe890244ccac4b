# SPDX-License-Identifier: Apache-2.0
"""Policies judged from logs whose truth is known."""

import csv
import json
import sys
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.stats import t

from ltp_switcher.daemon.cli.main import main
from ltp_switcher.daemon.gain.effect import t_quantile
from ltp_switcher.daemon.gain.evaluate import NoOverlapError, evaluate
from ltp_switcher.daemon.gain.log import DecisionWriter
from ltp_switcher.daemon.gain.rows import ROW_DTYPE, Kind
from ltp_switcher.errors import ConfigError

NAMES = {1: "cubic", 2: "bbr"}
WORTH = {1: 0.3, 2: 0.5}


def logged(n: int, explore: float, seed: int = 1) -> np.ndarray:
    """A policy that takes Cubic, but explores both arms; rewards vary about their arms' worth."""
    rng = np.random.default_rng(seed)
    rows = np.zeros(n, ROW_DTYPE)
    explores = rng.random(n) < explore
    rows["policy_arm"] = 1
    rows["arm"] = np.where(explores, rng.integers(1, 3, n), 1)
    rows["kind"] = np.where(explores, Kind.EXPLORED, Kind.CHOSEN)
    rows["active"] = True
    rows["probability"][:, 1] = 1 - explore / 2
    rows["probability"][:, 2] = explore / 2
    rows["prefix"] = [f"10.0.{i}.0/24".encode() for i in rng.integers(0, 200, n)]
    worth = np.array([0, WORTH[1], WORTH[2]])[rows["arm"]]
    rows["reward"] = np.clip(worth + rng.normal(0, 0.1, n), 0, 1)
    return rows


def test_intervals_hold_the_truth_in_95_of_100_logs() -> None:
    held = dict.fromkeys(("ips", "snips"), 0)
    for seed in range(300):
        found = evaluate(logged(2000, 0.2, seed), "bbr", NAMES)
        for name in held:
            mean = getattr(found, name)
            held[name] += mean.lower <= WORTH[2] <= mean.upper
    assert 0.92 * 300 <= held["snips"] <= 0.985 * 300
    assert 0.92 * 300 <= held["ips"] <= 0.985 * 300


def test_snips_is_sharper_and_the_weights_are_told() -> None:
    rows = logged(5000, 0.2)
    found = evaluate(rows, "bbr", NAMES)
    assert found.snips.upper - found.snips.lower < found.ips.upper - found.ips.lower
    # All weights are 0 or one number, so they count as many as took the arm.
    assert found.effective == pytest.approx((rows["arm"] == 2).sum())
    assert found.logged.value == pytest.approx(rows["reward"].mean())
    assert found.of == "destination prefix"


def test_the_policy_itself_and_an_even_draw() -> None:
    rows = logged(20_000, 0.3)
    assert evaluate(rows, "policy", NAMES).snips.value == pytest.approx(WORTH[1], abs=0.01)
    assert evaluate(rows, "uniform", NAMES).snips.value == pytest.approx(0.4, abs=0.01)


def test_without_overlap_there_is_no_estimate() -> None:
    with pytest.raises(NoOverlapError, match=r"2000 of 2000 decisions.*gain\.explore"):
        evaluate(logged(2000, 0.0), "bbr", NAMES)
    mixed = np.concatenate([logged(2000, 0.5), logged(1, 0.0)])
    with pytest.raises(NoOverlapError, match="1 of 2001"):
        evaluate(mixed, "bbr", NAMES)


@pytest.mark.parametrize(
    ("field", "value"), [("active", False), ("kind", Kind.PULL), ("kind", Kind.BASELINE)]
)
def test_decisions_of_others_do_not_count(field: str, value: int) -> None:
    rows = logged(3000, 0.5)
    strange = logged(1000, 0.5)
    strange[field], strange["reward"] = value, 1.0
    assert evaluate(np.concatenate([rows, strange]), "bbr", NAMES) == evaluate(rows, "bbr", NAMES)
    with pytest.raises(NoOverlapError, match="no decision"):
        evaluate(strange, "bbr", NAMES)


def test_rewards_that_are_unknown_are_counted() -> None:
    rows = logged(3000, 0.5)
    rows["reward"][:100] = np.nan
    assert evaluate(rows, "bbr", NAMES).without_reward == 100


def test_an_unknown_policy_is_named() -> None:
    with pytest.raises(ConfigError, match="cubic, bbr"):
        evaluate(logged(10, 0.5), "bbq", NAMES)


@pytest.mark.parametrize("freedom", [3, 5, 10, 30, 1000])
def test_the_quantile_is_students(freedom: int) -> None:
    assert t_quantile(freedom) == pytest.approx(t.ppf(0.975, freedom), rel=0.01)


def test_the_command_reads_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = DecisionWriter(tmp_path, 10**7, NAMES)
    writer.append(logged(3000, 0.5))
    writer.close()
    assert main(["evaluate", str(tmp_path), "--policy", "bbr", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["snips"]["lower"] < WORTH[2] < found["snips"]["upper"]
    assert main(["evaluate", str(tmp_path), "--policy", "bbr"]) == 0
    assert "SNIPS estimate" in capsys.readouterr().out
    assert main(["evaluate", str(tmp_path)]) == 2
    assert main(["evaluate", str(tmp_path), "--policy", "bbr", "--since", "1h"]) == 1
    assert "no decision" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert main(["evaluate", str(tmp_path), "--export", str(tmp_path / "x.parquet")]) == 1
    assert "pip install pyarrow" in capsys.readouterr().err
    assert not [*tmp_path.glob("x.parquet*")]


@pytest.mark.parametrize(
    ("command", "setting"),
    [
        (["evaluate", "--policy", "bbr"], "gain.log_mb"),
        (["report"], "gain.log_mb"),
        (["outcomes"], "gain.outcomes_mb"),
        (["replay", "--decision", "bbr"], "gain.outcomes_mb"),
    ],
)
@pytest.mark.parametrize("there", [True, False])
def test_a_missing_log_is_told_with_its_setting(
    command: list[str], setting: str, there: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path if there else tmp_path / "gone"
    assert main([*command, str(place)]) == 2
    told = capsys.readouterr().err
    assert f"'{place}' is not valid" in told
    assert f"while {setting} is above 0" in told


def test_a_log_without_the_names_of_its_arms_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = DecisionWriter(tmp_path, 10**7, NAMES)
    writer.append(logged(10, 0.5))
    writer.close()
    (tmp_path / "arms.json").unlink()
    assert main(["evaluate", str(tmp_path), "--policy", "bbr"]) == 2
    told = capsys.readouterr().err
    assert "arms.json" in told
    assert "No such file" in told
    assert "Errno" not in told


def test_the_log_goes_to_csv(tmp_path: Path) -> None:
    """Every number comes back as it was."""
    writer = DecisionWriter(tmp_path, 10**7, NAMES)
    rows = logged(50, 0.5)
    rng = np.random.default_rng(1)
    rows["time_s"], rows["life_s"] = 1.79e9 + rng.random(50), rng.random(50)
    rows["rtt_us"] = np.where(rng.random((50, 12)) < 0.5, np.nan, rng.random((50, 12)) * 1e5)
    rows["context"]["loss"] = rng.random(50)
    writer.append(rows)
    writer.close()
    path = tmp_path / "x.csv"
    assert main(["evaluate", str(tmp_path), "--export", str(path)]) == 0
    with path.open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [row["arm"] for row in table] == [NAMES[arm] for arm in rows["arm"].tolist()]
    assert [row["prefix"] for row in table] == [prefix.decode() for prefix in rows["prefix"].tolist()]
    for column, values in {
        "time_s": rows["time_s"], "life_s": rows["life_s"], "context_loss": rows["context"]["loss"],
        "probability_bbr": rows["probability"][:, 2], "rtt_us_1": rows["rtt_us"][:, 0],
        "rtt_us_12": rows["rtt_us"][:, 11], "active": rows["active"], "cookie": rows["cookie"],
    }.items():  # fmt: skip
        read = np.array([row[column] or "nan" for row in table], np.float64).astype(values.dtype)
        assert np.array_equal(read, values, equal_nan=values.dtype.kind == "f"), column


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["{log}"], 2, "--policy NAME or --export FILE"),
        (["{log}", "--policy", "bbq"], 2, "bbq"),
        (["{log}", "--export", "{log}/x.txt"], 2, ".csv or .parquet"),
        (["{log}/nowhere", "--policy", "bbr"], 2, "LOG"),
        (["{log}/notes", "--policy", "bbr"], 2, "LOG"),
        (["{log}/empty", "--policy", "bbr"], 2, "LOG"),
        (["{log}", "--export", "{log}/nowhere/x.csv"], 1, "cannot be written"),
        (["{log}", "--policy", "bbr", "--since", "1s"], 1, "no decision"),
    ],
)
def test_wrong_input_is_2_and_a_log_that_cannot_tell_is_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, said: str
) -> None:
    writer = DecisionWriter(tmp_path, 10**7, NAMES)
    writer.append(logged(50, 0.5))
    writer.close()
    (tmp_path / "notes").write_text("no log\n" * 99)
    (tmp_path / "empty").mkdir()
    assert main(["evaluate", *(one.replace("{log}", str(tmp_path)) for one in arguments)]) == status
    assert said in capsys.readouterr().err
    if arguments[0] != "{log}":
        assert main(["report", arguments[0].replace("{log}", str(tmp_path))]) == status


@pytest.fixture
def read_parquet(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], dict[str, list[object]]]:
    """Reads a Parquet file's columns. Where pyarrow is not installed, a stand-in keeps what it is given."""
    if find_spec("pyarrow"):
        from pyarrow import parquet

        return lambda path: parquet.read_table(path).to_pydict()
    written: dict[Path, dict[str, list[object]]] = {}

    def write_table(columns: dict[str, Iterable[object]], path: Path) -> None:
        path.touch()
        # `export` gives the file its name once it is whole.
        written[path.parent] = {name: list(values) for name, values in columns.items()}

    pyarrow, parquet = ModuleType("pyarrow"), ModuleType("pyarrow.parquet")
    pyarrow.__dict__.update(table=dict, parquet=parquet)
    parquet.__dict__.update(write_table=write_table)
    monkeypatch.setitem(sys.modules, "pyarrow", pyarrow)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", parquet)
    return lambda path: written[path.parent]


def test_the_log_goes_to_parquet(
    tmp_path: Path, read_parquet: Callable[[Path], dict[str, list[object]]]
) -> None:
    writer = DecisionWriter(tmp_path, 10**7, NAMES)
    rows = logged(50, 0.5)
    writer.append(rows)
    writer.close()
    assert main(["evaluate", str(tmp_path), "--export", str(tmp_path / "x.parquet")]) == 0
    assert (tmp_path / "x.parquet").is_file()
    table = read_parquet(tmp_path / "x.parquet")
    assert {len(column) for column in table.values()} == {50}
    assert table["arm"] == [NAMES[arm] for arm in rows["arm"].tolist()]
    assert table["prefix"] == [prefix.decode() for prefix in rows["prefix"].tolist()]
    assert np.allclose(table["probability"], rows["probability"])
    assert np.allclose(table["reward"], rows["reward"])

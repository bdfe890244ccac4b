# SPDX-License-Identifier: Apache-2.0
"""TOML files of people: their reading, and their refusal in one sentence."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltp_switcher import toml_file
from ltp_switcher.daemon.settings import policies
from ltp_switcher.daemon.settings.load import load
from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.run.scenario import load_scenario

UNFIT = {
    "deep": b"a = " + b"[" * 3000 + b"]" * 3000,
    "deep enough": b"a = " + b"[" * 200 + b"]" * 200,
    "tables": b"[" + b".".join([b"a"] * 3000) + b"]",
    "digits": b"a = " + b"9" * 5000,
    "large": b"a = 9223372036854775808",
    "text": b"a = ",
    "bytes": b"\xff\xfe",
    "nul": b"\x00",
}


@pytest.mark.parametrize("name", UNFIT)
@pytest.mark.parametrize("reader", [load, policies.read, load_scenario])
def test_what_cannot_be_read_is_told_in_one_sentence(
    tmp_path: Path, name: str, reader: Callable[[Path], object]
) -> None:
    file = tmp_path / "file.toml"
    file.write_bytes(UNFIT[name])
    with pytest.raises(ConfigError) as caught:
        reader(file)
    assert str(file) in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(ConfigError, match="config"):
            load(path)


def test_a_byte_order_mark_and_windows_lines_are_no_fault(tmp_path: Path) -> None:
    file = tmp_path / "file.toml"
    file.write_bytes(b'\xef\xbb\xbf[daemon]\r\nmode = "active"\r\n')
    assert load(file).daemon.mode == "active"
    file.write_bytes(b'\xef\xbb\xbf[[policy]]\r\nprefix = "198.51.100.0/24"\r\npin = "cubic"\r\n')
    assert policies.read(file) == [{"prefix": "198.51.100.0/24", "pin": "cubic"}]


def test_the_largest_numbers_of_toml_are_read(tmp_path: Path) -> None:
    file = tmp_path / "file.toml"
    file.write_text("a = 9223372036854775807\nb = -9223372036854775808")
    assert toml_file.read(file, "file") == {"a": 2**63 - 1, "b": -(2**63)}


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
entries = st.fixed_dictionaries(
    {"port": st.integers(1, 65535), "pool": st.lists(names, min_size=1, max_size=5, unique=True)},
    optional={"netns": st.sampled_from(["blue", "4026531840"]), "local_port": st.integers(1, 65535)},
)


@given(st.lists(entries, max_size=5, unique_by=lambda e: (e["port"], e.get("netns"), e.get("local_port"))))
def test_policies_written_as_toml_are_the_same_policies(made: list[dict[str, object]]) -> None:
    """With every name of an arm: quotes, line ends, control characters."""
    before = policies.parse(made)
    document = tomllib.loads(policies.to_toml(before))
    assert policies.parse(document.get("policy", [])).entries == before.entries

# SPDX-License-Identifier: Apache-2.0
"""The files of the rules: a bad line blocks no other and is lost by no rewrite."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltp_switcher.daemon.control.listing import prefix_of as of_the_api
from ltp_switcher.daemon.named import store
from ltp_switcher.daemon.settings.policies import parse
from ltp_switcher.daemon.settings.prefixes import prefix_of
from ltp_switcher.errors import ArtifactError, InvalidValueError


def texts(content: store.PrefixFile) -> list[str]:
    return [str(prefix) for prefix in content.prefixes]


def test_bad_lines_are_told_by_number_and_the_others_count(tmp_path: Path) -> None:
    file = tmp_path / "prefixes"
    file.write_bytes(
        b"\xef\xbb\xbf203.0.113.0/24\n# mine\n203.0.113.0/40\n\n2001:db8::/32 # lab\nfe80::1%up0\n\xff\n"
    )
    content = store.read(file)
    assert texts(content) == ["203.0.113.0/24", "2001:db8::/32"]
    assert [fault.partition(": ")[0] for fault in content.faults] == [f"{file}:{n}" for n in (3, 6, 7)]
    assert "a network such as" in content.faults[0]
    store.write(
        file, content.with_more([prefix_of("198.51.100.0/24")]).without([prefix_of("203.0.113.0/24")])
    )
    kept = file.read_bytes().splitlines()
    assert kept == [
        b"# mine", b"203.0.113.0/40", b"", b"2001:db8::/32 # lab", b"fe80::1%up0", b"\xff",
        b"198.51.100.0/24",
    ]  # fmt: skip


def test_the_file_goes_with_its_last_prefix(tmp_path: Path) -> None:
    file = tmp_path / "prefixes"
    prefix = prefix_of("203.0.113.0/24")
    store.write(file, store.read(file).with_more([prefix]))
    assert file.read_text().splitlines()[0].startswith("#")
    assert file.stat().st_mode & 0o777 == 0o644
    store.write(file, store.read(file).without([prefix]))
    assert not file.exists()
    store.write(file, store.read(file))
    assert store.read(file) == store.PrefixFile()


prefixes = st.builds(
    lambda address, bits: ipaddress.ip_network((address >> (32 - bits) << (32 - bits), bits)),
    st.integers(0, 2**32 - 1),
    st.integers(0, 32),
)


@given(st.lists(prefixes, max_size=8), st.lists(prefixes, max_size=8))
def test_what_is_added_is_there_once_and_what_is_dropped_is_gone(
    more: list[ipaddress.IPv4Network], less: list[ipaddress.IPv4Network]
) -> None:
    content = store.PrefixFile().with_more(more)
    assert content.prefixes == list(dict.fromkeys(more))
    assert content.with_more(more) == content
    assert content.without(less).prefixes == [prefix for prefix in content.prefixes if prefix not in less]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "prefixes").mkdir()
    with pytest.raises(ArtifactError, match="prefixes cannot be read"):
        store.read(tmp_path / "prefixes")
    (tmp_path / "policies.json").write_text("{")
    with pytest.raises(ArtifactError, match=r"policies\.json cannot be read"):
        store.read_policies(tmp_path / "policies.json")


def test_policies_come_back_and_one_of_another_release_blocks_none(tmp_path: Path) -> None:
    file = tmp_path / "policies.json"
    assert not store.read_policies(file)[0]
    entries = [{"prefix": "203.0.113.0/24", "pin": "bbr"}, {"local_port": 22, "exclude": True}]
    store.write_policies(file, parse(entries))
    found, faults = store.read_policies(file)
    assert (found.entries, faults) == (parse(entries).entries, [])
    assert file.stat().st_mode & 0o777 == 0o640
    file.write_text('[{"prefix": "203.0.113.0/24", "later": 1}, {"local_port": 22, "exclude": true}]')
    found, faults = store.read_policies(file)
    assert [policy.local_port for policy in found.entries] == [22]
    assert len(faults) == 1
    assert "later" in faults[0]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("::ffff:203.0.113.0/120", "203.0.113.0/24"),
        ("::ffff:203.0.113.7", "203.0.113.7/32"),
        ("::ffff:0:0/96", "0.0.0.0/0"),
        ("::/0", "::/0"),
        ("198.51.100.7", "198.51.100.7/32"),
        (" 2001:db8::/32 ", "2001:db8::/32"),
    ],
)
def test_one_reader_for_commands_policies_and_api(text: str, read: str) -> None:
    assert str(prefix_of(text)) == read
    assert of_the_api is prefix_of
    (policy,) = parse([{"prefix": text, "pin": "cubic"}]).entries
    assert str(policy.prefix) == read


@pytest.mark.parametrize(
    "text",
    [
        "",
        "203.0.113.1/24",
        "203.0.113.0/33",
        "example.org",
        "::/129",
        "1.2.3",
        "fe80::1%up0",
        "fe80::%eth0/64",
        None,
        7,
    ],
)
def test_what_is_no_prefix_is_refused_with_one_that_is(text: object) -> None:
    with pytest.raises(InvalidValueError, match=r"192\.0\.2\.0/24"):
        prefix_of(text)
    if text is not None:
        with pytest.raises(InvalidValueError, match=r"policies\[0\]\.prefix"):
            parse([{"prefix": text, "pin": "cubic"}])

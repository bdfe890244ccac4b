# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.documents import with_value

from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.run.bundled import SCENARIOS, find_scenario
from ltp_switcher.eval.run.scenario import LinkState, Scenario, load_scenario, parse_scenario

TEXT = """
name = "step-12-24"
duration_s = 60
[link]
rate_mbps = 12.0
rtt_ms = 40.0
buffer_bdp = 1.0
loss = 0.0
[[link.step]]
at_s = 20.0
rate_mbps = 24.0
[[link.step]]
at_s = 40.0
rtt_ms = 70.0
loss = 0.01
[[flow]]
scheme = "switcher"
[[flow]]
scheme = "cubic"
start_s = 10.0
stop_s = 50.0
rtt_ms = 90.0
"""


def test_the_documented_file_is_one() -> None:
    _, _, rest = (SCENARIOS.parent / "README.md").read_text().partition("```toml\n")
    scenario = parse_scenario(tomllib.loads(rest.partition("```")[0]))
    assert (scenario.link.rate_mbps, len(scenario.link.steps), scenario.flows[0].scheme) == (
        12.0,
        1,
        "switcher",
    )


def document() -> dict[str, object]:
    return tomllib.loads(TEXT)


def parse_with(path: str, value: object) -> Scenario:
    """The document with the value at a dotted path replaced, added, or (None) removed."""
    return parse_scenario(with_value(document(), path, value))


def test_design_example_is_read_whole() -> None:
    scenario = parse_scenario(document())
    assert (scenario.name, scenario.duration_s) == ("step-12-24", 60.0)
    assert list(scenario.link.states()) == [
        LinkState(0.0, 12.0, 40.0, 0.0),
        LinkState(20.0, 24.0, 40.0, 0.0),
        LinkState(40.0, 24.0, 70.0, 0.01),
    ]
    first, second = scenario.flows
    assert (first.start_s, first.stop_s, first.rtt_ms) == (0.0, 60.0, None)
    assert (second.start_s, second.stop_s, second.rtt_ms) == (10.0, 50.0, 90.0)


def test_base_rtt_is_averaged_over_the_flows_life() -> None:
    scenario = parse_scenario(document())
    assert scenario.base_rtt_ms(scenario.flows[0]) == pytest.approx((40 * 40 + 20 * 70) / 60)
    assert scenario.base_rtt_ms(scenario.flows[1]) == 90.0


def test_buffer_counts_full_packets() -> None:
    link = parse_scenario(document()).link
    assert link.buffer_packets(12.0) == 40  # 12 Mbit/s x 40 ms = 60,000 bytes
    assert parse_with("link.buffer_bdp", 0.01).link.buffer_packets(0.1) == 1
    changed = document()
    changed["link"]["buffer_pkts"] = 80  # type: ignore[index]
    del changed["link"]["buffer_bdp"]  # type: ignore[attr-defined]
    assert parse_scenario(changed).link.buffer_packets(12.0) == 80


@pytest.mark.parametrize(
    ("path", "value", "field", "allowed"),
    [
        ("name", None, "name", "required"),
        ("name", " ", "name", "not empty"),
        ("duration_s", "60", "duration_s", "a number from 0.5 to 3600"),
        ("duration_s", True, "duration_s", "a number"),
        ("duration_s", float("nan"), "duration_s", "a number"),
        ("durations", 3, "durations", "did you mean duration_s?"),
        ("link", 3, "link", "a table"),
        ("link.rate_mbps", 0.05, "link.rate_mbps", "0.1 to 1000"),
        ("link.rate_mbps", 1001, "link.rate_mbps", "0.1 to 1000"),
        ("link.rate_mbps", float("inf"), "link.rate_mbps", "0.1 to 1000"),
        ("link.rate_mbps", None, "link", "exactly one of rate_mbps and trace"),
        ("link.trace", "a-trace", "link", "exactly one of rate_mbps and trace"),
        ("link.rate_mbit", 12, "link.rate_mbit", "did you mean rate_mbps?"),
        ("link.rtt_ms", None, "link.rtt_ms", "required"),
        ("link.rtt_ms", 0.5, "link.rtt_ms", "1 to 2000"),
        ("link.loss", 1.0, "link.loss", "0 to 0.99"),
        ("link.loss", -0.1, "link.loss", "0 to 0.99"),
        ("link.offset_s", 3.0, "link.offset_s", "without link.trace"),
        ("link.police_burst_pkts", 9, "link.police_burst_pkts", "without link.police_mbps"),
        ("link.police_mbps", 0.0, "link.police_mbps", "0.1 to 1000"),
        ("link.queue", "fq-codel", "link.queue", "drop-tail, fq_codel, codel, pie"),
        ("link.queue", 1, "link.queue", "a text"),
        ("link.jitter_ms", 1001, "link.jitter_ms", "0 to 1000"),
        ("link.jitter_ms", -1, "link.jitter_ms", "0 to 1000"),
        ("link.buffer_pkts", 80, "link", "exactly one of buffer_bdp and buffer_pkts"),
        ("link.step", 3, "link.step", "[[link.step]]"),
        ("link.step.0.at_s", 60.0, "link.step[0].at_s", "less than 60 s"),
        ("link.step.0.at_s", 0.0, "link.step[0].at_s", "more than 0"),
        ("link.step.1.at_s", 20.0, "link.step[1].at_s", "later than 20 s"),
        ("link.step.0.rate_mbps", None, "link.step[0].at_s", "changes"),
        ("link.step.0.rtt", 3, "link.step[0].rtt", "did you mean rtt_ms?"),
        ("flow", [], "flow", "1 to 256"),
        ("flow", [3], "flow[0]", "a table"),
        ("flow.0.scheme", "cubik", "flow[0].scheme", "cubic"),
        ("flow.0.scheme", "fixed:", "flow[0].scheme", "0.1 to 1000 Mbit/s"),
        ("flow.0.scheme", "fixed:nan", "flow[0].scheme", "0.1 to 1000 Mbit/s"),
        ("flow.0.scheme", "fixed:2000", "flow[0].scheme", "0.1 to 1000 Mbit/s"),
        ("flow.0.scheme", "mutant:ltp", "flow[0].scheme", "jury"),
        ("flow.0.scheme", "mutant:dctcp", "flow[0].scheme", "mutant:<"),
        ("flow.0.scheme", 7, "flow[0].scheme", "cubic"),
        ("flow.0.scheme", None, "flow[0].scheme", "required"),
        ("flow.1.stop_s", 10.0, "flow[1].stop_s", "at least 0.1 s after start_s (10 s)"),
        ("flow.1.stop_s", 10.05, "flow[1].stop_s", "at least 0.1 s after start_s (10 s)"),
        ("flow.1.stop_s", 61.0, "flow[1].stop_s", "0 to 60"),
        ("flow.1.start_s", -1, "flow[1].start_s", "0 to 60"),
        ("flow.1.rtt_ms", 2001, "flow[1].rtt_ms", "1 to 2000"),
    ],
)
def test_a_bad_value_is_named(path: str, value: object, field: str, allowed: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_with(path, value)
    assert caught.value.field == field
    assert allowed in caught.value.allowed


def test_a_trace_gives_the_rate_alone() -> None:
    changed = document()
    link = changed["link"]
    assert isinstance(link, dict)
    del link["rate_mbps"]
    link["trace"] = "Some-LTE"
    with pytest.raises(ConfigError) as caught:
        parse_scenario(copy.deepcopy(changed))
    assert caught.value.field == "link.step[0].rate_mbps"
    link["step"] = [{"at_s": 20.0, "loss": 0.1}]
    assert [state.rate_mbps for state in parse_scenario(changed).link.states()] == [None, None]


def test_jitter_needs_the_plain_queue() -> None:
    plain = parse_scenario(document())
    jittery = parse_with("link.jitter_ms", 5)
    assert jittery.link.jitter_ms == 5.0
    assert jittery.canonical() != plain.canonical()
    # The fingerprints of all runs from before the key depend on this text.
    assert "jitter" not in parse_with("link.jitter_ms", 0).canonical()
    changed = document()
    changed["link"] |= {"jitter_ms": 5, "queue": "fq_codel"}  # type: ignore[operator]
    with pytest.raises(ConfigError, match=r"link\.queue.*drop-tail beside link\.jitter_ms"):
        parse_scenario(changed)


def test_a_queue_discipline_needs_a_rate_and_no_requests() -> None:
    managed = parse_with("link.queue", "fq_codel")
    assert managed.link.queue == "fq_codel"
    assert managed.canonical() != parse_with("link.queue", "codel").canonical()
    plain = parse_scenario(document())
    assert parse_with("link.queue", "drop-tail").canonical() == plain.canonical()
    # The fingerprints of all runs from before the key depend on this text.
    assert "queue" not in plain.canonical()
    changed = document()
    link = changed["link"]
    assert isinstance(link, dict)
    link["queue"] = "fq_codel"
    changed["requests"] = {"kind": "pages", "scheme": "cubic", "per_s": 1.0, "stop_s": 9.0}
    with pytest.raises(ConfigError, match=r"link\.queue.*\[requests\]"):
        parse_scenario(changed)
    del link["rate_mbps"], link["step"], changed["requests"]
    link["trace"] = "Some-LTE"
    with pytest.raises(ConfigError, match=r"link\.queue.*drop-tail"):
        parse_scenario(changed)


def test_with_scheme_replaces_the_first_flows() -> None:
    changed = parse_scenario(document()).with_scheme("mutant:bbr")
    assert [flow.scheme for flow in changed.flows] == ["mutant:bbr", "cubic"]
    assert [flow.scheme for flow in changed.with_scheme("vegas", every_flow=True).flows] == ["vegas"] * 2
    with pytest.raises(ConfigError):
        changed.with_scheme("nonsense")


def test_canonical_text_follows_content_alone() -> None:
    scenario = parse_scenario(document())
    spelt_out = tomllib.loads(TEXT)
    spelt_out["flow"][0].update(start_s=0, stop_s=60.0)
    spelt_out["link"]["rate_mbps"] = 12
    assert parse_scenario(spelt_out).canonical() == scenario.canonical()
    assert parse_with("link.rtt_ms", 41).canonical() != scenario.canonical()


KEYS = ("name", "duration_s", "link", "flow", "step", "rate_mbps", "rtt_ms", "at_s", "scheme", "trace")
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)


def nested(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)


@given(st.recursive(SCALARS, nested, max_leaves=12))
def test_nothing_but_config_error_leaves_the_parser(value: object) -> None:
    changed = value if isinstance(value, dict) else {"link": value}
    with pytest.raises(ConfigError):
        parse_scenario(changed)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="none"):
        load_scenario(tmp_path / "none.toml")
    for content in (b"name = ", b"\xff\xfe\x00"):
        broken = tmp_path / "broken.toml"
        broken.write_bytes(content)
        with pytest.raises(ConfigError, match="broken"):
            load_scenario(broken)


def test_a_trace_path_counts_from_the_scenarios_folder(tmp_path: Path) -> None:
    for trace in ("./mine.down", "named.down"):
        text = f'name="t"\nduration_s=5\n[link]\ntrace="{trace}"\nrtt_ms=20\n[[flow]]\nscheme="bbr"\n'
        (tmp_path / "s.toml").write_text(text)
        expected = str(tmp_path / "mine.down") if "/" in trace else trace
        assert load_scenario(tmp_path / "s.toml").link.trace == expected


@pytest.mark.parametrize("path", sorted(SCENARIOS.glob("*.toml")), ids=lambda path: path.stem)
def test_committed_scenarios_are_valid_and_named_after_their_files(path: Path) -> None:
    assert load_scenario(path).name == path.stem


@pytest.mark.parametrize("name", ["a/b", "..", ".", "../x", ".hidden", "a\\b", "a\nb", "x" * 101, "a\0"])
def test_a_name_that_could_name_another_file_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"^name: .*without slashes"):
        parse_scenario({**tomllib.loads(TEXT), "name": name})


@pytest.mark.parametrize("name", ["step-12-24", "12 Mbit/s".replace("/", " per "), "Größe.2", "x" * 100])
def test_other_names_are_taken(name: str) -> None:
    assert parse_scenario({**tomllib.loads(TEXT), "name": name}).name == name


def test_the_old_name_of_a_scheme_leads_to_the_new_one() -> None:
    with pytest.raises(ConfigError, match=r"scheme.*paper.*paper-preset, as this scheme is called now"):
        find_scenario("fixed").with_scheme("paper")
    assert find_scenario("fixed").with_scheme("paper-preset").scheme == "paper-preset"

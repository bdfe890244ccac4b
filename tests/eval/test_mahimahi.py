# SPDX-License-Identifier: Apache-2.0
"""Scenarios as mahimahi's shells take them, refusals, and the set-up; nothing here runs a shell."""

from __future__ import annotations

import json
import os
import stat
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ltp_switcher.eval as eval_package
from ltp_switcher.errors import ArtifactError, ConfigError, EmulationError
from ltp_switcher.eval.cli import engines
from ltp_switcher.eval.cli.main import main
from ltp_switcher.eval.mahimahi import run as mahimahi_run
from ltp_switcher.eval.mahimahi import setup
from ltp_switcher.eval.mahimahi.link_log import read_link_log
from ltp_switcher.eval.mahimahi.path import check_emulable, shell_path, with_whole_delays
from ltp_switcher.eval.run.cross import Cross, OnOff
from ltp_switcher.eval.run.scenario import Path as NetworkPath
from ltp_switcher.eval.run.scenario import Scenario, load_scenario, parse_scenario

HERE = ("reno", "cubic", "bbr")


def scenario(
    *, flows: list[dict[str, object]] | None = None, duration_s: float = 10, **link: object
) -> Scenario:
    path = {"rate_mbps": 12.0, "rtt_ms": 40.0, **link}
    if "trace" in path:
        del path["rate_mbps"]
    return parse_scenario(
        {"name": "here", "duration_s": duration_s, "link": path, "flow": flows or [{"scheme": "cubic"}]}
    )


def test_a_rate_is_one_opportunity_for_each_1500_bytes() -> None:
    """12 Mbit/s are 1500 bytes a millisecond, 18 one and a half times as many, 1 one in 12 ms."""
    path = shell_path(scenario())
    end_ms = path.lead_ms + 20_000
    assert path.up_ms.tolist() == list(range(1, end_ms + 1))
    assert path.up_trace().startswith("1\n2\n3\n")
    assert shell_path(scenario(rate_mbps=18.0)).up_ms[:9].tolist() == [1, 2, 2, 3, 4, 4, 5, 6, 6]
    assert shell_path(scenario(rate_mbps=1.0)).up_ms[:3].tolist() == [12, 24, 36]


@pytest.mark.parametrize("rate_mbps", [0.7, 39.1, 48.0, 123.4])
def test_a_minute_of_a_rate_has_all_its_bytes(rate_mbps: float) -> None:
    path = shell_path(scenario(rate_mbps=rate_mbps, duration_s=60))
    of_the_run = path.up_ms[(path.up_ms > path.lead_ms) & (path.up_ms <= path.lead_ms + 60_000)]
    assert of_the_run.size * 1500 * 8 / 60e6 == pytest.approx(rate_mbps, abs=12e3 / 60e6 * 1.01)


def test_a_step_of_the_rate_is_in_the_trace_at_its_time() -> None:
    path = shell_path(scenario(step=[{"at_s": 4.0, "rate_mbps": 24.0}, {"at_s": 7.5, "rate_mbps": 6.0}]))
    since_ms = path.up_ms - path.lead_ms
    assert np.count_nonzero((since_ms > 0) & (since_ms <= 4000)) == 4000
    assert np.count_nonzero((since_ms > 4000) & (since_ms <= 7500)) == 7000
    assert np.count_nonzero((since_ms > 7500) & (since_ms <= 10_000)) == 1250
    assert Counter(since_ms.tolist())[4000] == 1
    assert Counter(since_ms.tolist())[4001] == 2


def test_a_trace_begins_with_the_run_at_its_offset_and_repeats(tmp_path: Path) -> None:
    (tmp_path / "short.down").write_text("100\n100\n700\n1000\n")
    trace = str(tmp_path / "short.down")
    path = shell_path(scenario(trace=trace, duration_s=2))
    since_ms = (path.up_ms - path.lead_ms).tolist()
    assert since_ms[:8] == [100, 100, 700, 1000, 1100, 1100, 1700, 2000]
    assert since_ms[-1] == 12_000, "the drain after 2 s is in the trace, and its end closes the file"
    later = shell_path(scenario(trace=trace, duration_s=2, offset_s=0.5))
    assert (later.up_ms - later.lead_ms).tolist()[:5] == [300, 400, 400, 1000, 1300]


def test_the_queue_is_the_labs_in_packets() -> None:
    """12 Mbit/s x 40 ms are 40 packets; one more is in service."""
    assert shell_path(scenario(buffer_bdp=2.0)).queue_pkts == 81
    assert shell_path(scenario(buffer_pkts=7)).queue_pkts == 8
    assert shell_path(scenario(buffer_bdp=0.01)).queue_pkts == 2


def test_rtts_are_even_and_the_queue_keeps_its_length() -> None:
    found = with_whole_delays(
        scenario(rtt_ms=75.9, flows=[{"scheme": "cubic"}, {"scheme": "bbr", "rtt_ms": 1.0}])
    )
    assert found.link.rtt_ms == 76.0
    assert found.flows[1].rtt_ms == 2.0
    assert shell_path(found).queue_pkts == shell_path(scenario(rtt_ms=75.9)).queue_pkts
    assert with_whole_delays(found) == found


def test_flows_share_the_shell_of_their_rtt() -> None:
    flows: list[dict[str, object]] = [
        {"scheme": "cubic"}, {"scheme": "bbr", "rtt_ms": 100}, {"scheme": "reno"},
        {"scheme": "bbr", "rtt_ms": 40},
    ]  # fmt: skip
    path = shell_path(scenario(flows=flows))
    assert path.delays_ms == (20, 50)
    assert path.delay_of == (0, 1, 0, 0)
    assert path.lead_ms > shell_path(scenario()).lead_ms


@pytest.mark.parametrize(
    ("link", "field"),
    [
        ({"step": [{"at_s": 4.0, "rtt_ms": 80.0}]}, "link.step[0].rtt_ms"),
        ({"step": [{"at_s": 4.0, "rate_mbps": 6.0}, {"at_s": 5.0, "loss": 0.1}]}, "link.step[1].loss"),
        ({"police_mbps": 10.0}, "link.police_mbps"),
        ({"queue": "fq_codel"}, "link.queue"),
        ({"jitter_ms": 5.0}, "link.jitter_ms"),
        ({"walk": {"every_s": 1.0, "step_ms": 1.0, "range_ms": 5.0}}, "link.walk"),
        ({"handover": [{"at_s": 4.0, "silence_ms": 80.0}]}, "link.handover"),
        ({"burst_loss": {"to_bad": 0.01, "to_good": 0.1, "loss_bad": 0.5}}, "link.burst_loss"),
        ({"back": {"rate_mbps": 1.0}}, "link.back"),
    ],
)
def test_what_mahimahi_does_not_have_is_refused(link: dict[str, object], field: str) -> None:
    with pytest.raises(ConfigError, match=r"only with --engine lab") as caught:
        check_emulable(scenario(**link), HERE)
    assert caught.value.field == field


def test_several_paths_and_traffic_beside_are_refused() -> None:
    several = replace(scenario(), paths=(NetworkPath("a", scenario().link),))
    with pytest.raises(ConfigError, match=r"path: .*only with --engine lab"):
        check_emulable(several, HERE)
    crossed = replace(scenario(), cross=Cross(on_off=OnOff(1.0, 1.0, 1.0)))
    with pytest.raises(ConfigError, match=r"cross: .*only with --engine lab"):
        check_emulable(crossed, HERE)


def test_a_web_server_is_refused() -> None:
    pages = load_scenario(Path(eval_package.__path__[0]) / "suite" / "test" / "pages-1.toml")
    with pytest.raises(ConfigError, match=r"requests: .*no web server"):
        check_emulable(pages, HERE)


@pytest.mark.parametrize(
    "scheme",
    [
        "switcher",
        "rule",
        "ltp",
        "owl-network",
        "fixed:5",
        "measured:bbr",
        "bpftune",
        "schedule:bbr@0,cubic@3",
    ],
)
def test_a_scheme_that_needs_more_than_a_protocol_is_refused(scheme: str) -> None:
    with pytest.raises(
        ConfigError, match=r"allowed: cubic, bbr, reno, mutant:<arm> with --engine mahimahi"
    ) as caught:
        check_emulable(scenario(flows=[{"scheme": "cubic"}, {"scheme": scheme}]), (*HERE, "mutant"))
    assert caught.value.field == "flow[1].scheme"


def test_a_protocol_that_the_kernel_lacks_is_refused_with_its_module() -> None:
    for scheme, module in (("vegas", "tcp_vegas"), ("mutant:bbr", "tcp_mutant")):
        with pytest.raises(ConfigError, match=rf"bbr, cubic, reno.*modprobe {module}"):
            check_emulable(scenario(flows=[{"scheme": scheme}]), HERE)
    check_emulable(scenario(flows=[{"scheme": "mutant:bbr"}]), (*HERE, "mutant"))
    check_emulable(scenario(loss=0.02, step=[{"at_s": 4.0, "rate_mbps": 6.0}]), HERE)


def test_the_command_refuses_before_it_makes_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(mahimahi_run, "host_protocols", lambda: HERE)
    out = tmp_path / "out"
    assert main(["run", "fixed", "--engine", "mahimahi", "--out", str(out)]) == 1
    assert "flow[0].scheme: 'switcher'" in capsys.readouterr().err
    assert not out.exists()


def test_a_run_is_in_namespaces_of_its_own_and_its_shells_are_nobodys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = shell_path(scenario(loss=0.015, flows=[{"scheme": "cubic"}, {"scheme": "bbr", "rtt_ms": 100}]))
    command = mahimahi_run.session_command(path, work=tmp_path / "w", folder=tmp_path / "p", end_ms=10_000)
    at = command.index(str(tmp_path / "p" / "session"))
    assert command[0] == "unshare"
    assert {"--net", "--mount", "--pid", "--kill-child"} <= set(command[:at])
    user, group = command[at + 3 : at + 5]
    assert int(user) > 0
    assert int(group) > 0
    assert command[at + 5 :] == ["41", "0.015", str(path.lead_ms), "10000", "20", "50"]


LOG = """# mahimahi mm-link (Uplink) [up.trace] > up.log
# queue: droptail [packets=2]
# init timestamp: 1700000000000
# base timestamp: 146
150 # 1504
250 + 1504
251 + 1504
252 + 1504
346 + 60
349 # 1504
349 - 1504 99
350 + 1504
450 - 1504 199
451 - 1504 100
"""


def test_the_queue_is_followed_through_the_log() -> None:
    """The run begins at 246 ms. Two of five packets find two in the queue."""
    log = read_link_log(LOG.splitlines(), queue_pkts=2, lead_ms=100, bins=4)
    assert (log.arrived_pkts, log.left_pkts, log.dropped_pkts) == (5, 3, 2)
    assert log.queue_pkts.tolist() == [2, 2, 0, 0]


def test_another_file_is_no_log() -> None:
    with pytest.raises(ArtifactError, match="base timestamp"):
        read_link_log(["150 + 1504"], queue_pkts=2, lead_ms=0, bins=1)


def test_losses_beyond_the_random_ones_are_told_from_them() -> None:
    assert mahimahi_run.most_lost(10_000, 0.0) == 10.0
    assert 101 < mahimahi_run.most_lost(9_900, 0.01) < 100 + 4 * 10 + 10


LDD = """\tlinux-vdso.so.1 (0x00007ffd)
\tlibxcb-present.so.0 => not found
\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)
"""


def test_libraries_that_are_missing_are_named() -> None:
    assert setup.missing_libraries(LDD) == ["libxcb-present.so.0"]


def test_what_is_missing_is_told_with_its_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LTP_CACHE", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr("shutil.which", lambda name: None if name == "nsenter" else f"/usr/bin/{name}")
    with pytest.raises(EmulationError, match=r"mahimahi cannot run here") as caught:
        setup.programs()
    told = str(caught.value)
    assert "- mahimahi's mm-link is missing: `make mahimahi`" in told
    assert "- the program nsenter is missing: `apt-get install util-linux`" in told
    assert "rights of root" in told
    assert "unshare" not in told


@pytest.fixture
def unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package as apt gives it, in place of a download; the cache is empty."""
    files = tmp_path / "files"
    (files / "usr/bin").mkdir(parents=True)
    for name in ("mm-link", "mm-loss", "mm-delay", "mm-webreplay"):
        (files / "usr/bin" / name).write_text("#!/bin/sh\n")
        (files / "usr/bin" / name).chmod(0o4755)
    (files / "usr/share/doc/mahimahi").mkdir(parents=True)
    (files / "usr/share/doc/mahimahi/copyright").write_text("GPL-3+\n")
    asked: list[tuple[str, Sequence[str]]] = []

    def unpack(suite: str, packages: Sequence[str], _private: Path, _hint: str) -> Path:
        asked.append((suite, packages))
        assert asked == [("bullseye", ("mahimahi",))], "fetched once"
        return files

    monkeypatch.setattr(setup, "unpack", unpack)
    monkeypatch.setenv("LTP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "mahimahi"


def test_no_shell_in_the_cache_is_set_user_id(unpacked: Path) -> None:
    assert setup.fetch_shells() == setup.fetch_shells() == unpacked
    assert sorted(path.name for path in unpacked.iterdir()) == ["copyright", "mm-delay", "mm-link", "mm-loss"]
    assert {
        stat.S_IMODE((unpacked / name).stat().st_mode) for name in ("mm-delay", "mm-link", "mm-loss")
    } == {0o755}


def test_the_command_lists_what_is_missing_and_fails(
    unpacked: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engines, "find_missing", lambda: [setup.Missing("/dev/net/tun", "modprobe tun")])
    monkeypatch.setattr(engines, "host_protocols", lambda: HERE)
    assert main(["mahimahi", "--json"]) == 1
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {
        "folder": str(unpacked), "protocols": list(HERE),
        "missing": [{"what": "/dev/net/tun", "remedy": "modprobe tun"}],
    }  # fmt: skip
    assert "/dev/net/tun" in captured.err
    assert main(["mahimahi"]) == 1
    assert "modprobe tun" in capsys.readouterr().out
    monkeypatch.setattr(engines, "find_missing", list)
    assert main(["mahimahi"]) == 0


def test_the_modules_default_arm_is_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The source of a `mutant:bbr` flow sets it, for all new flows of the host."""
    parameter = tmp_path / "default_arm"
    parameter.write_text("cubic\n")
    monkeypatch.setattr(mahimahi_run, "_DEFAULT_ARM", parameter)

    def run() -> None:
        with mahimahi_run._default_arm_kept():
            parameter.write_text("bbr\n")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()
    assert parameter.read_text() == "cubic\n"


def test_an_edited_trace_is_another_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its name alone, the old result would stand for the new trace."""
    monkeypatch.setattr(mahimahi_run, "programs_digest", lambda: "programs")
    file = tmp_path / "link.down"
    file.write_text("1\n2\n")
    of = scenario(trace=str(file))
    before = mahimahi_run.emulation_fingerprint(of, seed=1)
    assert mahimahi_run.emulation_fingerprint(of, seed=1) == before
    file.write_text("1\n3\n")
    assert mahimahi_run.emulation_fingerprint(of, seed=1) != before

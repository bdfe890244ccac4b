# SPDX-License-Identifier: Apache-2.0
import json
import math

import pytest
from support.records import flow

from ltp_switcher.daemon.control.families import (
    Family,
    Sample,
    counter,
    from_json,
    gauge,
    histogram,
    labelled,
    to_json,
)
from ltp_switcher.daemon.control.metrics import usage
from ltp_switcher.daemon.step.flow_table import FlowTable
from ltp_switcher.daemon.step.histogram import RTT_S, Distributions, Histogram

FAMILIES = [
    counter("x_steps", "Steps.", 3),
    gauge("x_flows", "Flows.", 2.5),
    labelled("x_time_seconds", "counter", "Time.", "arm", {"bbr": 1.0, 'odd"\\\n': 2.0}, "seconds"),
    Family(
        "x_step_seconds",
        "summary",
        "Duration.",
        "seconds",
        [Sample(0.001, {"quantile": "0.5"}), Sample(1, {}, "_count")],
    ),
]


def test_the_same_after_a_way_through_json() -> None:
    assert from_json(json.loads(json.dumps(to_json(FAMILIES)))) == FAMILIES


def test_what_is_no_number_survives_json() -> None:
    values = {"a": float("nan"), "b": float("inf"), "c": float("-inf")}
    told = json.dumps(to_json([labelled("x", "gauge", "X.", "of", values)]), allow_nan=False)
    (family,) = from_json(json.loads(told))
    found = {sample.labels["of"]: sample.value for sample in family.samples}
    assert math.isnan(found["a"])
    assert (found["b"], found["c"]) == (math.inf, -math.inf)


def test_a_histogram_counts_each_value_in_all_buckets_above() -> None:
    bins = Histogram([0.1, 1.0])
    for value in (0.05, 0.1, 0.5, 7.0):
        bins.add(value)
    family = histogram("x", "X.", "", bins.bounds, [({"a": "b"}, bins.counts, bins.sum)])
    found = {(sample.suffix, sample.labels.get("le")): sample.value for sample in family.samples}
    assert found == {
        ("_bucket", "0.1"): 2,
        ("_bucket", "1"): 3,
        ("_bucket", "+Inf"): 4,
        ("_count", None): 4,
        ("_sum", None): pytest.approx(7.65),
    }


def test_flows_that_move_data_count_by_arm() -> None:
    table, seen = FlowTable(), Distributions()
    table.mark(0)
    table.resync([flow(cookie, arm=cookie % 2 + 1, srtt_us=30_000) for cookie in range(1, 6)], 0)
    for slot in table.slots()[:3]:
        table.record["total_acked_bytes"][slot] += 50_000
    table.mark(1_000_000_000)
    seen.look(table)
    by_arm = [seen.rtt_s.counts[arm].sum() for arm in (1, 2)]
    assert by_arm == [1, 2]
    at = RTT_S.index(0.05)
    assert seen.rtt_s.counts[:, at].sum() == 3
    assert seen.goodput_Bps.sums.sum() == pytest.approx(150_000)


def test_the_use_of_the_machine_is_this_process_own() -> None:
    used = usage()
    assert 1e6 < used["resident_memory_bytes"] < 1e11
    assert used["open_fds"] >= 3
    assert used["cpu_seconds"] > 0


@pytest.mark.parametrize(
    "value",
    [None, [1], [{"name": "x"}], [{"name": "x", "type": "odd", "help": "", "unit": "", "samples": []}]],
)
def test_what_is_no_list_of_families_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="not a list of metric families"):
        from_json(value)  # type: ignore[arg-type]

# SPDX-License-Identifier: Apache-2.0
from support.records import flow

from ltp_switcher.daemon.control.describe import flow_json
from ltp_switcher.daemon.step.flow_table import FlowTable


def described(**fields: int) -> dict[str, object]:
    table = FlowTable()
    slot = table.add(flow(7, **fields), now_ns=0)
    assert slot is not None
    return flow_json(table, slot, {3: "vegas"})


def test_a_flow_in_units_for_people() -> None:
    told = described(srtt_us=40_500, min_rtt_us=20_000, delivery_rate=1_250_000, pacing_rate=2_500_000, arm=3)
    assert (told["srtt_ms"], told["min_rtt_ms"], told["arm"]) == (40.5, 20.0, "vegas")
    assert (told["delivery_rate_mbps"], told["pacing_rate_mbps"]) == (10.0, 20.0)


def test_a_value_that_the_kernel_does_not_have_is_null() -> None:
    """All ones: no RTT sample yet, no pacing; half of them: an infinite threshold."""
    told = described(min_rtt_us=2**32 - 1, pacing_rate=2**64 - 1, ssthresh=2**31 - 1)
    assert (told["min_rtt_ms"], told["pacing_rate_mbps"], told["ssthresh_pkts"]) == (None, None, None)
    assert told["reward"] is None

# SPDX-License-Identifier: Apache-2.0
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltp_switcher.daemon.control.openmetrics import (
    Family,
    Sample,
    counter,
    from_json,
    gauge,
    labelled,
    render_openmetrics,
    to_json,
)

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
GOLDEN = r"""# TYPE x_steps counter
# HELP x_steps Steps.
x_steps_total 3
# TYPE x_flows gauge
# HELP x_flows Flows.
x_flows 2.5
# TYPE x_time_seconds counter
# UNIT x_time_seconds seconds
# HELP x_time_seconds Time.
x_time_seconds_total{arm="bbr"} 1
x_time_seconds_total{arm="odd\"\\\n"} 2
# TYPE x_step_seconds summary
# UNIT x_step_seconds seconds
# HELP x_step_seconds Duration.
x_step_seconds{quantile="0.5"} 0.001
x_step_seconds_count 1
# EOF
"""


def test_golden_text() -> None:
    assert render_openmetrics(FAMILIES) == GOLDEN


def test_the_same_after_a_way_through_json() -> None:
    assert render_openmetrics(from_json(json.loads(json.dumps(to_json(FAMILIES))))) == GOLDEN


def test_what_is_no_number_is_written_as_openmetrics_does() -> None:
    values = {"a": float("nan"), "b": float("inf"), "c": float("-inf")}
    told = json.dumps(to_json([labelled("x", "gauge", "X.", "of", values)]), allow_nan=False)
    text = render_openmetrics(from_json(json.loads(told)))
    assert text.splitlines()[2:] == ['x{of="a"} NaN', 'x{of="b"} +Inf', 'x{of="c"} -Inf', "# EOF"]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_exact(value: float) -> None:
    line = render_openmetrics([gauge("x", "X.", value)]).splitlines()[2]
    assert float(line.split()[1]) == value


@pytest.mark.parametrize(
    "value",
    [None, [1], [{"name": "x"}], [{"name": "x", "type": "odd", "help": "", "unit": "", "samples": []}]],
)
def test_what_is_no_list_of_families_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="not a list of metric families"):
        from_json(value)  # type: ignore[arg-type]

# SPDX-License-Identifier: Apache-2.0
import math

import pytest

from ltp_switcher.figures import Figure, Target


@pytest.mark.parametrize(
    ("target", "text", "reached", "missed"),
    [
        (Target(low=0.5), "≥ 0.5", [0.5, 7.0], [0.49, math.nan]),
        (Target(high=2.0), "≤ 2", [2.0, -1.0], [2.01, math.nan]),
        (Target(low=0.5, high=2.0), "0.5 to 2", [0.5, 2.0], [0.4, 2.1]),
        (Target(below=2.0), "< 2", [1.99, -1.0], [2.0, math.nan]),
    ],
)
def test_a_target_is_a_range(target: Target, text: str, reached: list[float], missed: list[float]) -> None:
    assert str(target) == text
    for value in (*reached, *missed):
        figure = Figure("jury", "Jain", value, target)
        assert figure.met is (value in reached)
        told = figure.to_dict()
        assert (told["target"], told["met"], told["scheme"]) == (text, value in reached, "jury")


def test_without_a_target_there_is_nothing_to_meet() -> None:
    assert Figure("cubic", "Jain", 0.5).met is None
    assert Figure("cubic", "Jain", 0.5).to_dict()["target"] is None


def test_a_worst_case_is_compared_without_its_place() -> None:
    assert Figure("cubic", "least utilisation (10 ms)", 0.5).quantity == "least utilisation"
    assert Figure("cubic", "utilisation (10 ms)", 0.5).quantity == "utilisation (10 ms)"

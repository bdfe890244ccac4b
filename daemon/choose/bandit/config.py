# SPDX-License-Identifier: Apache-2.0
"""The settings of the decision, with two presets: the paper's and ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Final, Literal, get_args

from ltp_switcher.daemon.datapath.protocol import ARMS_MAX
from ltp_switcher.errors import ConfigError, InvalidValueError

Ucb = Literal["algorithm1", "linucb"]
Credit = Literal["sent", "acked"]
MinRtt = Literal["kernel", "adwin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """Settings of Algorithm 1. The README gives the reasons of the defaults; `paper()` is the paper's way.

    zeta, kappa: Eq. 1.
    ucb: "algorithm1" adds alpha * sqrt(2 log t / n_a), "linucb" alpha * sqrt(z' A^-1 z).
    alpha: weight of that bonus.
    ridge: lambda of LinUCB.
    discount: factor on a flow's knowledge of all its arms, each time it learns something.
    step_ms: delta, the length of a step.
    hold_steps, hold_rtts, hold_ms: a decision stands for the longest of the three.
    credit: "sent" gives a sample to the decision under which its data left, "acked" to the decision in
        force when the ACK came (the paper's).
    switch_margin: how much better, in normalised reward, another arm's score must be to leave the active.
    epsilon, epsilon_decay: at its n-th decision a flow tries a random arm of the pool with probability
        epsilon / (1 + n / epsilon_decay).
    trained_cap, global_cap, prefix_cap: most updates an arm that a new flow inherits from the encoder's
        training data, from all flows, from its destination prefix.
    keep_on_change: share of its certainty that a flow keeps when ADWIN finds that its path changed.
    decide_on_change: end the decision in force when ADWIN finds that the path changed.
    adwin_delta, adwin_clock: see `AdwinBank`.
    min_rtt: d_min of R_max. "adwin": least RTT in the windows (the paper's). "kernel": the kernel's own
        minimum over five minutes too, so that a queue that arms of ours have built is never taken for the
        path.
    stale_s: age at which an arm's window no longer counts for R_max.
    """

    zeta: float = 5.0
    kappa: float = 2.0
    ucb: Ucb = "linucb"
    alpha: float = 0.05
    ridge: float = 1.0
    discount: float = 0.98
    step_ms: float = 10.0
    hold_steps: int = 1
    hold_rtts: float = 4.0
    hold_ms: float = 200.0
    credit: Credit = "sent"
    switch_margin: float = 0.1
    epsilon: float = 0.0
    epsilon_decay: float = 50.0
    trained_cap: float = 30.0
    global_cap: float = 50.0
    prefix_cap: float = 100.0
    keep_on_change: float = 0.9
    decide_on_change: bool = True
    adwin_delta: float = 0.002
    adwin_clock: int = 32
    min_rtt: MinRtt = "kernel"
    stale_s: float = 10.0

    @classmethod
    def paper(cls) -> AgentConfig:
        """Mutant as published: a decision each step, UCB of line 15, nothing inherited, no credit."""
        return cls(
            ucb="algorithm1",
            alpha=1.0,
            discount=1.0,
            hold_rtts=0.0,
            hold_ms=0.0,
            credit="acked",
            switch_margin=0.0,
            trained_cap=0.0,
            global_cap=0.0,
            prefix_cap=0.0,
            keep_on_change=1.0,
            decide_on_change=False,
            min_rtt="adwin",
        )

    @classmethod
    def preset(cls, name: str) -> AgentConfig:
        """The preset `default` or `paper`."""
        presets: dict[str, Callable[[], AgentConfig]] = {"default": cls, "paper": cls.paper}
        if name not in presets:
            raise ConfigError("preset", name, "default or paper")
        return presets[name]()

    def __post_init__(self) -> None:
        """Check every value.

        Raises:
            ConfigError: naming the field, its value and the allowed values.
        """
        for name, choices in (("ucb", Ucb), ("credit", Credit), ("min_rtt", MinRtt)):
            values = get_args(choices)
            if getattr(self, name) not in values:
                raise ConfigError(name, getattr(self, name), " or ".join(values))
        for name, low, high in _RANGES:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                raise ConfigError(name, value, f"{low:g} to {high:g}")
        for field in fields(self):
            if field.type == "int" and not isinstance(getattr(self, field.name), int):
                raise ConfigError(field.name, getattr(self, field.name), "a whole number")
            if field.type == "bool" and not isinstance(getattr(self, field.name), bool):
                raise ConfigError(field.name, getattr(self, field.name), "true or false")


_RANGES: Final[tuple[tuple[str, float, float], ...]] = (
    ("zeta", 0, 1000),
    ("kappa", 0.1, 10),
    ("alpha", 0, 100),
    ("ridge", 1e-6, 1e6),
    ("discount", 0.5, 1),
    ("step_ms", 1, 1000),
    ("hold_steps", 1, 10000),
    ("hold_rtts", 0, 1000),
    ("hold_ms", 0, 60000),
    ("switch_margin", 0, 1),
    ("epsilon", 0, 1),
    ("epsilon_decay", 1, 1e9),
    ("trained_cap", 0, 1e6),
    ("global_cap", 0, 1e6),
    ("prefix_cap", 0, 1e6),
    ("keep_on_change", 0.01, 1),
    ("adwin_delta", 1e-9, 0.5),
    ("adwin_clock", 1, 10000),
    ("stale_s", 0.1, 3600),
)


@dataclass(frozen=True, slots=True)
class ArmTable:
    """The arms that this machine offers, in the order of the bandit's columns.

    ids: the kernel's arm ids, 1 to ARMS_MAX. names: one for each id.

    Raises:
        InvalidValueError: no arm, an id twice or out of range, or not one name for each id.
    """

    ids: tuple[int, ...]
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        """Check the table."""
        if not self.ids or len(set(self.ids)) != len(self.ids):
            raise InvalidValueError("ids", self.ids, "one or more ids, each once")
        if any(not 1 <= arm <= ARMS_MAX for arm in self.ids):
            raise InvalidValueError("ids", self.ids, f"1 to {ARMS_MAX}")
        if len(self.names) != len(self.ids):
            raise InvalidValueError("names", self.names, f"{len(self.ids)} names, one for each id")

    def __len__(self) -> int:
        """Number of arms."""
        return len(self.ids)

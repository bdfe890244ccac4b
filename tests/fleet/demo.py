# SPDX-License-Identifier: Apache-2.0
"""`make demo-fleet`: three daemons and a real store. One has learned, and one of the others hears of it.

The daemons, the services of the two that share, and the store are the real ones. The module's table is a
stand-in, and the flows are made. They run on the arm that the table gives them, and earn the worth of this
arm on their network. The networks are the made ones of `make bench-fleet`. The daemons' clock is made, too.
So visits a minute apart take moments, and the same seeds give the same rewards.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
import pytest
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from support.live_kernel import LiveKernel
from support.records import NETNS
from support.running_daemon import close, make_daemon
from support.sharing import learning, sharing, sharing_of
from support.site_store import SiteStore, site_store
from support.told import Module

from fleet import world
from ltp_switcher.arrays import Floats
from ltp_switcher.commands import program
from ltp_switcher.daemon.datapath.protocol import ArmId
from ltp_switcher.daemon.settings.fleet import FleetSection
from ltp_switcher.daemon.settings.schema import Config
from ltp_switcher.daemon.step.learning.live import PLAN_TURNS
from ltp_switcher.errors import StoreError
from ltp_switcher.eval.report.drawing import GREY, NamedLine, headline, name_lines, picture
from ltp_switcher.palette import BLUE, VERMILION

OUT: Final = Path("out/demo-fleet")
SEEDS: Final = (1, 2, 3)
TAUGHT: Final = 200
"""Visits to each network from which the first host has learned."""
SHOWN: Final = 30
"""Visits to each network that the picture shows."""
FIRST: Final = 10
"""Visits among them that the table is about."""
FLOWS: Final = 4
"""Flows of a visit."""
ARMS: Final = (0, ArmId.BBR, ArmId.LTP, ArmId.VEGAS, ArmId.CUBIC)
"""The arms in a world's columns; 0 is the decision's own choice."""
KNOWS, SHARES, ALONE = "knows", "fleet", "alone"
TITLES: Final = {KNOWS: "knows the networks itself", SHARES: "new, in its fleet", ALONE: "new, by itself"}
COLOURS: Final = {KNOWS: GREY, SHARES: BLUE, ALONE: VERMILION}
PATIENCE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Lived:
    """What three hosts earned in one world."""

    seed: int
    rewards: dict[str, Floats]
    """By host, shape (visits,): the mean over the networks, as a share of the best arms'."""
    begins: dict[str, float]
    """By host, the share of networks on whose best arm the first flow begins."""
    lessons: int
    """Networks of which the first host told the second."""
    took_s: float
    """Time from the start of the second host's service until its daemon had them all."""


@dataclass
class Clock:
    """A clock that stands until it is set forward."""

    now_s: float = world.EPOCH_S

    def time(self) -> float:
        """Unix time."""
        return self.now_s

    def ns(self) -> int:
        """The same moment as CLOCK_MONOTONIC tells it."""
        return round(self.now_s * 1e9)


@dataclass
class Host:
    """A daemon, and the made flows that go out from its machine."""

    config: Config
    effects: Floats
    """Shape (networks, arms)."""
    seed: int
    clock: Clock
    patch: pytest.MonkeyPatch
    kernel: LiveKernel = field(init=False)

    def __post_init__(self) -> None:
        # No flow lasts: all that the daemon sees of them are their outcomes.
        self.kernel = LiveKernel(())
        self.daemon = make_daemon(self.kernel, self.config, self.patch)
        self.engine = self.daemon.engine
        assert self.engine.outcomes is not None
        self.engine._clock = self.engine.outcomes._clock = self.clock.ns
        gains = {
            f"10.0.{number}.0/24": {int(arm): float(effect) for arm, effect in zip(ARMS, row, strict=True)}
            for number, row in enumerate(self.effects)
        }
        self.module = Module(gains, decision=0, seed=self.seed, noise=world.NOISE)
        self.module.table = self.kernel.entries

    @property
    def knows(self) -> int:
        """The number of networks of which it has heard from others."""
        assert self.engine.visits is not None
        return int(self.engine.visits.told(len(self.effects)).size)

    @property
    def lessons(self) -> int:
        """The number of networks of which it can tell others something."""
        assert self.engine.visits is not None
        found = self.engine.visits.lessons(-1, self.clock.now_s)[1].variance[:, 1:]
        return int(np.isfinite(found).any(axis=1).sum())

    def visit(self) -> Floats:
        """A visit to each network. Returns what its arms are worth there, shape (networks,)."""
        told = []
        for prefix in self.module.gains:
            flows = np.repeat(self.module.visit(prefix, self.clock.now_s)["outcome"], FLOWS)
            flows["cookie"] = FLOWS * flows["cookie"] + np.arange(FLOWS)
            told.append(flows)
        made = np.concatenate(told)
        made["netns"], made["time_ns"] = NETNS, self.clock.ns()
        self.kernel.told = made
        drawn = self.module.drawn[-len(told) :]
        return np.array([self.module.gains[each.prefix][each.lot] for each in drawn])

    def look(self) -> None:
        """The daemon looks at what has come, and plans."""
        self.engine.step()
        self.engine.step()

    def begins_best(self) -> float:
        """The share of networks on whose best arm a flow would begin now, if there is no trial."""
        best = [ARMS[place] for place in np.argmax(self.effects, axis=1).tolist()]
        table = self.module.table
        # A generation's lowest five bits are the incumbent.
        arms = [int(table[name]["generation"]) & 31 if name in table else 0 for name in self.module.gains]
        return fmean(mine == arm for mine, arm in zip(arms, best, strict=True))

    def close(self) -> None:
        """End the daemon."""
        self.engine.close()
        close(self.daemon)


def minute(hosts: Sequence[Host], clock: Clock) -> None:
    """Let the time between two visits pass, in which every network gets a plan."""
    for _ in range(PLAN_TURNS):
        clock.now_s += world.GAP_S / PLAN_TURNS
        for host in hosts:
            host.look()


@contextlib.contextmanager
def answering(hosts: Sequence[Host]) -> Iterator[None]:
    """Let the daemons serve their control sockets, until the end of the context."""
    stop = threading.Event()

    def serve() -> None:
        while not stop.is_set():
            for host in hosts:
                host.daemon._loop._wait(time.monotonic() + 0.005, idle=False)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def hear(folder: Path, teller: Host, hearer: Host, tell: Callable[[str], object]) -> float:
    """Let the services of two daemons run until the second one knows the lessons of the first. Returns s."""
    log = folder / "services.log"
    with answering((teller, hearer)), sharing(folder, teller.config, log):
        began_s = time.monotonic()
        with sharing(folder, hearer.config, log):
            while hearer.knows < teller.lessons:
                if time.monotonic() - began_s > PATIENCE_S:
                    raise StoreError(f"no lessons arrived in {PATIENCE_S:.0f} s: {log.read_text()}")
                time.sleep(0.01)
            took_s = time.monotonic() - began_s
    tell(f"{hearer.knows} lessons arrived {took_s:.1f} s after the start of the new host's service")
    return took_s


def live(
    seed: int, store: SiteStore, folder: Path, *, networks: int, taught: int, shown: int,
    advance: Callable[[], object], tell: Callable[[str], object],
) -> Lived:  # fmt: skip
    """One world: a host learns, another one hears of it, a third one does not, and all three go on.

    Args:
        seed: seed of the networks, and of the visits.
        store: the site's store, which is emptied first.
        folder: for the daemons' files.
        networks: number of networks.
        taught: visits to each from which the first host learns.
        shown: visits to each afterwards, by all three.
        advance: called after each visit.
        tell: called with news.
    """
    effects = world.truth(seed)[:networks]
    clock = Clock()
    store.client.flushall()
    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as opened:
        patch.setattr("ltp_switcher.daemon.datapath.netlink.own_namespace", lambda: NETNS)
        patch.setattr("time.time", clock.time)

        def host(name: str, place: int, fleet: FleetSection | None = None) -> Host:
            made = Host(learning(folder, name, fleet), effects, 1000 * seed + place, clock, patch)
            opened.callback(made.close)
            return made

        period_s = FleetSection().period_s
        first = host(KNOWS, 0, sharing_of(KNOWS, store.socket, period_s))
        for _ in range(taught):
            first.visit()
            minute([first], clock)
            advance()
        hosts = {
            KNOWS: first, SHARES: host(SHARES, 1, sharing_of(SHARES, store.socket, period_s)),
            ALONE: host(ALONE, 2),
        }  # fmt: skip
        took_s = hear(folder, first, hosts[SHARES], tell)
        minute([*hosts.values()], clock)
        begins = {name: each.begins_best() for name, each in hosts.items()}
        best = np.exp(effects.max(axis=1)).mean()
        rewards: dict[str, list[float]] = {name: [] for name in hosts}
        for _ in range(shown):
            for name, each in hosts.items():
                rewards[name].append(float(np.exp(each.visit()).mean() / best))
            minute([*hosts.values()], clock)
            advance()
        found = {name: np.array(shares) for name, shares in rewards.items()}
        return Lived(seed, found, begins, hosts[SHARES].knows, took_s)


@dataclass(frozen=True, slots=True)
class Demo:
    """All worlds, and the figures that follow from them."""

    lived: Sequence[Lived]
    networks: int
    taught: int

    @property
    def first(self) -> int:
        """The visits that the figures are about."""
        return min(FIRST, self.lived[0].rewards[KNOWS].size)

    def reward(self, host: str) -> float:
        """The reward of a host's first visits, as a share of the best arms': the mean of the worlds."""
        return fmean(float(one.rewards[host][:FIRST].mean()) for one in self.lived)

    def over(self, host: str) -> list[float]:
        """The same over that of the host that taught it, for each world."""
        return [
            float(one.rewards[host][:FIRST].mean() / one.rewards[KNOWS][:FIRST].mean()) for one in self.lived
        ]

    def begins(self, host: str) -> float:
        """The share of networks on whose best arm its first flow begins."""
        return fmean(one.begins[host] for one in self.lived)

    def by_visit(self, host: str) -> Floats:
        """Its reward by visit, shape (visits,): the mean of the worlds."""
        found: Floats = np.mean([one.rewards[host] for one in self.lived], axis=0)
        return found

    def document(self) -> dict[str, object]:
        """All figures, for JSON. But for the times they are the same for the same seeds."""
        return {
            "networks": self.networks, "visits_taught": self.taught, "visits_first": self.first,
            "seeds": [one.seed for one in self.lived],
            "hosts": {
                name: {
                    "title": title, "reward": self.reward(name), "over_first_host": self.over(name),
                    "begins_on_best_arm": self.begins(name), "reward_by_visit": self.by_visit(name).tolist(),
                }
                for name, title in TITLES.items()
            },
            "lessons": [one.lessons for one in self.lived],
            "lessons_took_s": [round(one.took_s, 2) for one in self.lived],
        }  # fmt: skip


def demo(
    out: Path, progress: Console, *, seeds: Sequence[int] = SEEDS, networks: int = world.PREFIXES,
    taught: int = TAUGHT, shown: int = SHOWN,
) -> Demo:  # fmt: skip
    """Run the demo, and write `demo.png` and `report.json` into a folder."""
    out.mkdir(parents=True, exist_ok=True)
    lived = []
    with Progress(console=progress) as bar:
        for seed in seeds:
            task = bar.add_task(f"world {seed}", total=taught + shown)

            def tell(news: str, seed: int = seed) -> None:
                progress.print(f"world {seed}: {news}", highlight=False)

            with TemporaryDirectory() as name, site_store(Path(name)) as store:
                lived.append(
                    live(
                        seed, store, Path(name), networks=networks, taught=taught, shown=shown,
                        advance=partial(bar.advance, task), tell=tell,
                    )
                )  # fmt: skip
    made = Demo(lived, networks, taught)
    (out / "report.json").write_text(json.dumps(made.document(), indent=2) + "\n")
    draw(out / "demo.png", made)
    return made


def draw(path: Path, made: Demo) -> None:
    """Draw the rewards of the three hosts visit by visit, each world thin, and their mean."""
    fleet, alone = (fmean(made.over(name)) for name in (SHARES, ALONE))
    with picture(path, 10.0, 5.4) as figure:
        axes = figure.subplots()
        headline(
            figure,
            f"A new host in a fleet begins with {fleet:.2f} of the reward of the host that taught it",
            f"By itself with {alone:.2f}. On half of the {made.networks} made networks the decision's "
            f"own choice is not the best arm.\nReal daemons, services and store. Means of {len(made.lived)} "
            f"worlds, which are thin lines; seeds {', '.join(str(one.seed) for one in made.lived)}.",
        )
        visits = np.arange(1.0, made.by_visit(KNOWS).size + 1)
        for name, colour in COLOURS.items():
            for one in made.lived:
                axes.plot(visits, one.rewards[name], color=colour, linewidth=0.7, alpha=0.4)
            axes.plot(visits, made.by_visit(name), color=colour, linewidth=2.6)
        axes.axhline(1.0, color=GREY, linewidth=1.0, linestyle=":", zorder=0)
        axes.set(
            xlabel="visit of the host to each network", ylabel="reward, share of the best arm's",
            xlim=(1, visits[-1]), ylim=(0, 1.08),
        )  # fmt: skip
        name_lines(
            figure,
            axes,
            [NamedLine(TITLES[name], COLOURS[name], visits, made.by_visit(name)) for name in TITLES],
        )


def print_demo(made: Demo, console: Console, out: Path) -> None:
    """Print the table."""
    table = Table(f"first {made.first} visits", box=None, pad_edge=False)
    for title in ("reward", "over the first host's", "begin on the best arm"):
        table.add_column(title, justify="right", no_wrap=True)
    for name, title in TITLES.items():
        table.add_row(
            title, f"{made.reward(name):.3f}", f"{fmean(made.over(name)):.3f}", f"{made.begins(name):.0%}"
        )
    console.print(table)
    console.print(
        f"\nA reward is a share of the best arm's. The same seeds give the same rewards on any host.\n"
        f"picture: {out / 'demo.png'}\nreport:  {out / 'report.json'}",
        highlight=False, soft_wrap=True, markup=False,
    )  # fmt: skip


@program("demo-fleet")
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo, print; return the exit status."""
    parser = argparse.ArgumentParser(prog="demo-fleet", description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT, metavar="DIR", help=f"default {OUT}")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    options = parser.parse_args(arguments)
    made = demo(options.out, Console(stderr=True))
    if options.json:
        print(json.dumps(made.document(), indent=2))
    else:
        print_demo(made, Console(), options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Runs rounds until there are enough switches and messages; clean rounds are kept, so that a run resumes."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from debug_kernels import build, guest
from debug_kernels.guest import Round
from debug_kernels.planted import FAULTS, HOST, Fault, failures_on_host, planted
from debug_kernels.script import Size, script, unloads
from ltp_switcher.errors import LabError

ROUND: Final = Size(flows=64, switches=1_000, crowds=32, messages=250_000, churn=4, unloads=10, failing=2)
CUT: Final = Size(flows=24, switches=800, crowds=1, messages=1_000, churn=2, unloads=2, failing=1)
PLANTED: Final = Size(flows=16, switches=300, crowds=0, messages=100, churn=3, unloads=1, failing=1)
TIMEOUT_S: Final = 7200.0

Told = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Kept:
    """What is written down of a round."""

    flavour: str
    seed: int
    kernel: str
    switches: int
    messages: int
    wall_s: float
    faults: list[str]
    foreign: list[str]
    answers: dict[str, dict[str, object]]


class NotKeptError(LabError):
    """A round is not in the cache, and none was to be run."""


def run(
    flavour: str, size: Size, *, switches: int, messages: int, seed: int, tell: Told, boot: bool = True
) -> Iterator[Kept]:
    """Yield rounds of one kernel until the sums are reached, or one round has found a fault.

    Without `boot` they come from the cache alone, as far as that goes.
    """
    done_switches = done_messages = 0
    while done_switches < switches or done_messages < messages:
        try:
            kept = one(flavour, size, seed=seed, tell=tell, boot=boot)
        except NotKeptError:
            return
        yield kept
        if kept.faults:
            return
        done_switches += kept.switches
        done_messages += kept.messages
        seed += 1


def one(
    flavour: str,
    size: Size,
    *,
    seed: int,
    tell: Told,
    sources: Path = build.MODULE,
    planted_fault: bool = False,
    boot: bool = True,
) -> Kept:
    """Return a round, from the cache where it was clean before, or where its fault was planted.

    Raises:
        NotKeptError: it is not in the cache, and `boot` is False.
        LabError: the guest could not be built or booted.
    """
    text = script(size, flavour, seed, planted=planted_fault)
    return _one(flavour, text, seed=seed, tell=tell, sources=sources, planted_fault=planted_fault, boot=boot)


def unloading(flavour: str, times: int, *, seed: int, tell: Told, boot: bool = True) -> Kept:
    """Return a round that only unloads the module, `times` under each kind of request that finds an arm.

    Raises:
        NotKeptError: it is not in the cache, and `boot` is False.
        LabError: the guest could not be built or booted.
    """
    return _one(flavour, unloads(times), seed=seed, tell=tell, boot=boot)


def _one(
    flavour: str,
    text: str,
    *,
    seed: int,
    tell: Told,
    sources: Path = build.MODULE,
    planted_fault: bool = False,
    boot: bool = True,
) -> Kept:
    chosen = build.kernel(flavour)
    module = build.module(chosen, sources)
    mark = hashlib.sha256(module.read_bytes() + f"{flavour}\0{text}".encode())
    for image in guest.programs().values():
        mark.update(image)
    path = build.debug_cache() / "results" / f"{chosen.vmlinux.parent.name}-{mark.hexdigest()[:20]}.json"
    if path.exists():
        kept = Kept(**json.loads(path.read_text()))
        # A round that has found something is run once more.
        if planted_fault or not kept.faults or not boot:
            return kept
    if not boot:
        raise NotKeptError(f"no round of {flavour} with seed {seed} is kept")
    result = guest.play(
        chosen,
        module,
        text,
        flavour=flavour,
        seed=seed,
        timeout_s=TIMEOUT_S,
        on_line=lambda line: tell(f"{flavour}, seed {seed}: {line}"),
        first=planted_fault,
    )
    kept = _kept(result, chosen.release)
    path.parent.mkdir(parents=True, exist_ok=True)
    if kept.faults:
        path.with_suffix(".log").write_text(f"{result.output}\n{result.console}")
        tell(f"console and output: {path.with_suffix('.log')}")
    path.write_text(json.dumps(asdict(kept), indent=1))
    return kept


def _kept(result: Round, release: str) -> Kept:
    return Kept(
        flavour=result.flavour,
        seed=result.seed,
        kernel=release,
        switches=result.switches,
        messages=result.messages,
        wall_s=round(result.wall_s, 1),
        faults=[f"{fault.kind} ({fault.phase}): {fault.title}" for fault in result.faults],
        foreign=result.foreign,
        answers=result.answers,
    )


def catch(fault: Fault, *, seed: int, tell: Told, boot: bool = True) -> Kept:
    """Return a round with a fault planted."""
    with tempfile.TemporaryDirectory(prefix="ltp-planted-") as folder:
        sources = planted(fault, Path(folder))
        if fault.flavour == HOST:
            failed = [f"host-test: {line}" for line in failures_on_host(sources)]
            return Kept(HOST, seed, "", 0, 0, 0.0, failed, [], {})
        return one(
            fault.flavour,
            PLANTED,
            seed=seed,
            tell=tell,
            sources=sources,
            planted_fault=True,
            boot=boot,
        )


def faults_of(flavours: tuple[str, ...]) -> list[Fault]:
    """The faults that kernels of these flavours should find, and the host."""
    return [fault for fault in FAULTS if fault.flavour in (*flavours, HOST)]

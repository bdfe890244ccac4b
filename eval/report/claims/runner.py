# SPDX-License-Identifier: Apache-2.0
"""Makes the runs that claims need, each once and through the cache, and judges the claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rich.console import Console

from ltp_switcher.daemon.settings.schema import LearnedSection
from ltp_switcher.daemon.steer import missing_weights
from ltp_switcher.eval.report.claims.claim import Claim, Results
from ltp_switcher.eval.run.batch import run_batch
from ltp_switcher.eval.run.executor import Executor
from ltp_switcher.eval.run.results import Job, RunResult
from ltp_switcher.eval.run.schemes import resolve
from ltp_switcher.figures import Figure


@dataclass(frozen=True, slots=True)
class Reached:
    """A claim that was tested. `missing` has the schemes without results, each with the reason."""

    claim: Claim
    results: Results
    figures: tuple[Figure, ...]
    missing: Mapping[str, str]
    quick: bool

    @property
    def text(self) -> str:
        """The claim in words, and the part that a quick run shortens."""
        return f"{self.claim.text} (quick: {self.claim.quick})" if self.quick else self.claim.text

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        return {
            "claim": self.claim.name,
            "text": self.text,
            "figures": [figure.to_dict() for figure in self.figures],
            "not_available": dict(self.missing),
        }


def run_claims(
    claims: Sequence[Claim],
    progress: Console,
    *,
    quick: bool,
    baselines: bool,
    kernel: str,
    use_cache: bool,
    executor: Executor,
) -> list[Reached]:
    """Make the runs of all claims as one batch, and judge each claim.

    Raises:
        LabError, ConfigError, ArtifactError, ClusterError: a run failed; see `run_batch`.
    """
    missing = {claim.name: _missing(claim) for claim in claims}
    plans: dict[str, dict[tuple[str, str], list[Job]]] = {}
    for claim in claims:
        schemes = [scheme for scheme in claim.schemes if scheme not in missing[claim.name]]
        if schemes:
            schemes += claim.baselines if baselines else claim.against
        plans[claim.name] = claim.jobs(schemes, quick=quick, kernel=kernel)
    jobs = list(dict.fromkeys(job for plan in plans.values() for row in plan.values() for job in row))
    outcomes = run_batch(
        jobs, progress, use_cache=use_cache, executor=executor,
        label=lambda job: f"{job.scenario.name} {job.scheme} #{job.seed}",
    )  # fmt: skip
    outcome_of = {outcome.job: outcome for outcome in outcomes}
    reached = []
    for claim in claims:
        ran = {at: [outcome_of[job] for job in row] for at, row in plans[claim.name].items()}
        unfit = missing[claim.name]
        for (path, scheme), row in ran.items():
            reason = next((told for outcome in row if (told := _did_not_run(outcome))), None)
            if reason is not None:
                unfit.setdefault(scheme, f"{path}: {reason}")
        fit = [scheme for scheme in claim.schemes if scheme not in unfit]
        results = Results({at: row for at, row in ran.items() if fit and at[1] not in unfit})
        progress.print(f"judging {claim.name}", highlight=False)
        reached.append(Reached(claim, results, _judged(claim, results) if fit else (), unfit, quick))
    return reached


def _judged(claim: Claim, results: Results) -> tuple[Figure, ...]:
    """The figures of all seeds together, each with the spread of the single seeds."""
    figures = tuple(claim.judge(results))
    seeds = results.by_seed()
    if len(seeds) < 2:
        return figures
    alone = zip(*(claim.judge(one) for one in seeds), strict=True)
    return tuple(
        replace(figure, spread=(min(one.value for one in same), max(one.value for one in same)))
        for figure, same in zip(figures, alone, strict=True)
    )


def _did_not_run(outcome: RunResult) -> str | None:
    """Say why a run does not show the learned arms that its flows name; None if it does."""
    guest = outcome.guest()
    for flow, seen in zip(outcome.job.scenario.flows, outcome.summary.flows, strict=True):
        scheme = resolve(flow.scheme)
        if scheme.policy != "keep" or scheme.arm is None:
            continue
        others = {arm: share for arm, share in seen.arm_share.items() if arm != scheme.arm}
        if others:
            told = ", ".join(f"{share:.1%} under {arm}" for arm, share in others.items())
            return f"seed {outcome.job.seed}: {told}"
        if guest["fallbacks"] or not guest["learned"].get(scheme.arm, {}).get("controls"):
            return f"seed {outcome.job.seed}: {guest['fallbacks']} fallbacks, or no control was sent"
    return None


def _missing(claim: Claim) -> dict[str, str]:
    """The schemes of a claim that cannot run, and the reasons."""
    found = {}
    for name in claim.schemes:
        scheme = resolve(name)
        if scheme.arm is None:
            continue
        settings = LearnedSection(variants=(scheme.variant,) if scheme.variant else ())
        reason = missing_weights(scheme.arm, settings)
        if reason is not None:
            found[name] = reason
    return found

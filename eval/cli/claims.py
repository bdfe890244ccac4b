# SPDX-License-Identifier: Apache-2.0
"""`ltp-eval claims`: run what the papers claim, and judge it."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from ltp_switcher.artifacts import revision
from ltp_switcher.eval.cli.output import json_text, need_figures
from ltp_switcher.eval.report.claims.catalogue import find_claims
from ltp_switcher.eval.report.claims.runner import run_claims
from ltp_switcher.eval.report.claims.tables import claims_page, claims_table


def judge(options: argparse.Namespace, console: Console, progress: Console) -> None:
    """Run the claims; write `claims.json`, `claims.md` and pictures."""
    need_figures()
    from ltp_switcher.eval.report.claims.pictures import draw_claim

    claims = find_claims(options.claim, options.schemes)
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    # The runs are of this revision. Hours later the checkout may have another.
    made_of = revision()
    reached = run_claims(
        claims, progress, quick=options.quick, baselines=options.baselines,
        kernel=options.kernel, use_cache=options.cache, parallel=options.jobs,
    )  # fmt: skip
    text = json_text([one.to_dict() for one in reached])
    (out / "claims.json").write_text(text)
    given = "".join(f" {name}" for name in options.claim)
    given += f" --schemes {','.join(options.schemes)}" * bool(options.schemes)
    given += " --quick" * options.quick + " --no-baselines" * (not options.baselines)
    how = f"`ltp-eval claims{given}`, Linux {options.kernel}, revision {made_of}"
    (out / "claims.md").write_text(claims_page(reached, how))
    for one in reached:
        draw_claim(out, one)
    if options.json:
        console.out(text, end="", highlight=False)
    else:
        console.print(claims_table(reached))

# SPDX-License-Identifier: Apache-2.0
"""`ltp-eval claims` and `claims-page`: test the claims of the learned arms' papers, and write their page in
docs/.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from ltp_switcher.artifacts import revision
from ltp_switcher.errors import ArtifactError, ConfigError
from ltp_switcher.eval.cli.output import json_text, need_pictures
from ltp_switcher.eval.report.claims.catalogue import CLAIMS, find_claims
from ltp_switcher.eval.report.claims.page import PAGE, PICTURES, picture_name, render
from ltp_switcher.eval.report.claims.record import RECORD, Record, read_record
from ltp_switcher.eval.report.claims.runner import run_claims
from ltp_switcher.eval.report.claims.tables import claims_page, claims_table
from ltp_switcher.eval.run.executor import executor_of


def judge(options: argparse.Namespace, console: Console, progress: Console) -> None:
    """Test the claims, and write `claims.json`, `claims.md` and pictures. With `--update`, also write the
    figures into docs/.
    """
    if options.update and options.quick:
        raise ConfigError("--update", True, "without --quick: the record is of full runs")
    need_pictures()
    from ltp_switcher.eval.report.claims.pictures import draw_claim

    claims = find_claims(options.claim, options.schemes)
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    # The runs have this revision. Hours later the checkout may have another one.
    made_of = revision()
    with executor_of(options.jobs, options.cluster) as executor:
        reached = run_claims(
            claims, progress, quick=options.quick, baselines=options.baselines,
            kernel=options.kernel, use_cache=options.cache, executor=executor,
        )  # fmt: skip
    text = json_text([one.to_dict() for one in reached])
    (out / "claims.json").write_text(text)
    given = "".join(f" {name}" for name in options.claim)
    given += f" --schemes {','.join(options.schemes)}" * bool(options.schemes)
    given += " --quick" * options.quick + " --no-baselines" * (not options.baselines)
    how = f"`ltp-eval claims{given}`, Linux {options.kernel}, revision {made_of}"
    (out / "claims.md").write_text(claims_page(reached, how))
    for one in reached:
        draw_claim(out / f"{one.claim.name}.png", one)
    if options.update:
        record = read_record().updated(reached, options.kernel, made_of)
        RECORD.write_text(record.to_json(), encoding="utf-8")
        PAGE.write_text(render(record), encoding="utf-8")
        for one in reached:
            draw_claim(PICTURES / picture_name(one.claim.name), one)
    if options.json:
        console.out(text, end="", highlight=False)
    else:
        console.print(claims_table(reached))


def page(options: argparse.Namespace, console: Console, _: Console) -> None:
    """`ltp-eval claims-page`: make docs/claims.md from docs/claims.json, or check whether the page is up to
    date. Also draw the pictures that no full run has made, where the recorded figures suffice.
    """
    record = read_record()
    made = {RECORD: record.to_json(), PAGE: render(record)}
    stale = [file.name for file, text in made.items() if _text(file) != text]
    drawn: list[str] = []
    if not options.check:
        drawn = _draw_recorded(record)
        # The page shows the pictures that there are.
        made[PAGE] = render(record)
        for file, text in made.items():
            file.write_text(text, encoding="utf-8")
    elif stale:
        raise ArtifactError(f"{' and '.join(stale)} in docs/ are stale. Run `ltp-eval claims-page`.")
    if options.json:
        told = {"page": str(PAGE), "changed": stale, "drawn": drawn}
        console.out(json_text(told), end="", highlight=False)
        return
    console.print(f"{PAGE}: {'made' if stale else 'up to date'}", highlight=False, soft_wrap=True)
    for name in drawn:
        console.print(f"{PICTURES / name}: drawn", highlight=False, soft_wrap=True)


def _draw_recorded(record: Record) -> list[str]:
    """Draw the pictures of the claims whose rows say that no full run has made theirs; return their names."""
    need_pictures()
    from ltp_switcher.eval.report.claims.pictures import draw_recorded

    lacking = {row.claim for row in record.rows if row.picture}
    return [
        name
        for claim in CLAIMS
        if claim.name in lacking
        for name in [picture_name(claim.name)]
        if draw_recorded(PICTURES / name, claim, record.figures_of(claim.name))
    ]


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.is_file() else ""
